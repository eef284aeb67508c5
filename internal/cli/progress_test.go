package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

// TestProgressCountsBytes: after a second people see how far a copy is, and before that nothing.
func TestProgressCountsBytes(t *testing.T) {
	var shown bytes.Buffer
	p := &progress{to: &shown, text: "copying"}
	if _, err := io.Copy(io.Discard, p.count(strings.NewReader(strings.Repeat("x", 20<<20)), 40<<20)); err != nil {
		t.Fatal(err)
	}
	p.line(progressAfter / 2)
	p.line(3 * time.Second)
	if want := "\r\x1b[Kcopying … 20 MiB of 40 MiB, 3 s"; shown.String() != want {
		t.Errorf("%q, want %q", shown.String(), want)
	}
}

// TestProgressEndsBeforeWhatIsWritten: the two may share a terminal.
func TestProgressEndsBeforeWhatIsWritten(t *testing.T) {
	p := startProgress(io.Discard, "copying")
	var out bytes.Buffer
	w := p.before(&out)
	for range 2 {
		if _, err := w.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-p.stop:
		default:
			t.Error("it goes on")
		}
	}
	p.end()
	if out.String() != "xx" {
		t.Errorf("%q", out.String())
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1 << 10: "1 KiB", 10 << 20: "10 MiB", 10 << 30: "10 GiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
