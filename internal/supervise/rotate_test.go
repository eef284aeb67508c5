package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRotateKeepsTheTailAndTheWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "role.log")
	w, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	w.WriteString(strings.Repeat("old\n", 5))
	if err := rotate(path, 100); err != nil { // short enough
		t.Fatal(err)
	}
	if err := rotate(path, 8); err != nil {
		t.Fatal(err)
	}
	w.WriteString("new\n")
	want := map[string]string{path: "new\n", path + ".1": "old\nold\n"}
	for p, text := range want {
		if got, err := os.ReadFile(p); err != nil || string(got) != text {
			t.Errorf("%s holds %q, %v; want %q", filepath.Base(p), got, err, text)
		}
	}
	if err := rotate(path+".none", 1); err != nil {
		t.Errorf("a missing log: %v", err)
	}
}

func TestBackoffGrowsToItsLimitAndStartsOverAfterAHealthyLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		last := time.Duration(rapid.Int64Range(0, int64(backoffMost)).Draw(t, "last"))
		lived := time.Duration(rapid.Int64Range(0, int64(2*backoffReset)).Draw(t, "lived"))
		got := backoff(last, lived)
		switch {
		case got < backoffFirst && last >= backoffFirst, got > backoffMost:
			t.Fatalf("backoff(%s, %s) = %s, outside [%s, %s]", last, lived, got, backoffFirst, backoffMost)
		case lived >= backoffReset && got != backoffFirst:
			t.Fatalf("backoff(%s, %s) = %s after a healthy life, want %s", last, lived, got, backoffFirst)
		case lived < backoffReset && last > 0 && got < min(2*last, backoffMost):
			t.Fatalf("backoff(%s, %s) = %s doesn't grow", last, lived, got)
		}
	})
}
