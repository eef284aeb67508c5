package envelope_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/space-platform/space/internal/envelope"
)

func seal(t *testing.T, k *envelope.Key, value, context string) []byte {
	t.Helper()
	out, err := k.Seal([]byte(value), context)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSealAndOpen(t *testing.T) {
	k := envelope.New([32]byte{1})
	for _, value := range []string{"", "secret", strings.Repeat("x", 1<<20)} {
		sealed := seal(t, k, value, "a")
		if len(sealed) != len(value)+envelope.Overhead || value != "" && bytes.Contains(sealed, []byte(value)) {
			t.Errorf("%d bytes became %d", len(value), len(sealed))
		}
		got, err := envelope.New([32]byte{1}).Open(sealed, "a")
		if err != nil || string(got) != value {
			t.Errorf("opened %d bytes, %v", len(got), err)
		}
		if bytes.Equal(sealed, seal(t, k, value, "a")) {
			t.Error("the same value was sealed to the same bytes")
		}
	}
}

func TestOpensNowhereElse(t *testing.T) {
	k := envelope.New([32]byte{1})
	sealed := seal(t, k, "secret", "sandbox/1")
	for name, open := range map[string]func() ([]byte, error){
		"another key":     func() ([]byte, error) { return envelope.New([32]byte{2}).Open(sealed, "sandbox/1") },
		"a random key":    func() ([]byte, error) { return envelope.Random().Open(sealed, "sandbox/1") },
		"another context": func() ([]byte, error) { return k.Open(sealed, "sandbox/2") },
		"nothing":         func() ([]byte, error) { return k.Open(nil, "sandbox/1") },
		"a part":          func() ([]byte, error) { return k.Open(sealed[:len(sealed)-1], "sandbox/1") },
		"too short":       func() ([]byte, error) { return k.Open(sealed[:envelope.Overhead-1], "sandbox/1") },
	} {
		if got, err := open(); !errors.Is(err, envelope.ErrSealed) {
			t.Errorf("%s opened it: %q, %v", name, got, err)
		}
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := k.Open(changed, "sandbox/1"); !errors.Is(err, envelope.ErrSealed) {
			t.Errorf("opened with byte %d changed: %v", i, err)
		}
	}
}

func TestKeyIsNotPrinted(t *testing.T) {
	k := envelope.New([32]byte([]byte(strings.Repeat("k", 32))))
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(format, k); strings.Contains(s, "k107") || strings.Contains(s, "107 107") || strings.Contains(s, "0x6b") || strings.Contains(s, "kkk") {
			t.Errorf("%s prints %s", format, s)
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	keys := make([]*envelope.Key, 8)
	var wg sync.WaitGroup
	for i := range keys { // at once: all get the same
		wg.Go(func() {
			k, err := envelope.Load(path)
			if err != nil {
				t.Error(err)
			}
			keys[i] = k
		})
	}
	wg.Wait()
	sealed := seal(t, keys[0], "secret", "a")
	for _, k := range keys {
		if _, err := k.Open(sealed, "a"); err != nil {
			t.Error(err)
		}
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	good := strings.Repeat("0a", 32)
	for name, x := range map[string]struct {
		content string
		mode    os.FileMode
	}{
		"readable by others": {good, 0o644}, "empty": {"", 0o600}, "short": {good[2:], 0o600}, "no digits": {"zz" + good[2:], 0o600},
		"long": {strings.Repeat(good, 4), 0o600},
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(x.content), x.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := envelope.Load(path); err == nil || strings.Contains(err.Error(), good) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := envelope.Load(filepath.Join(t.TempDir(), "missing", "key")); err == nil {
		t.Error("made a key in a directory that isn't there")
	}
}
