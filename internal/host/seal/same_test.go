package seal

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestSame(t *testing.T) {
	a := bytes.Repeat([]byte("a"), 3*readBytes)
	b := bytes.Clone(a)
	b[readBytes+7] = 'b'
	dir := t.TempDir()
	path, other, short := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "short")
	zeroes := append(bytes.Clone(a[:readBytes]), make([]byte, readBytes)...)
	for p, text := range map[string][]byte{path: a, other: b, short: a[:readBytes], filepath.Join(dir, "zeroes"): zeroes} {
		if err := os.WriteFile(p, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		path, other string
		parts       []Part
		want        bool
	}{
		"none":          {path, other, nil, true},
		"before it":     {path, other, []Part{{0, readBytes + 7}}, true},
		"it":            {path, other, []Part{{readBytes + 7, 1}}, false},
		"all":           {path, other, []Part{{0, 3 * readBytes}}, false},
		"beside it":     {path, other, []Part{{0, readBytes + 7}, {readBytes + 8, readBytes}}, true},
		"zeroes there":  {short, filepath.Join(dir, "zeroes"), []Part{{0, 2 * readBytes}}, true},
		"others there":  {path, short, []Part{{0, 2 * readBytes}}, false},
		"the end of it": {other, path, []Part{{2 * readBytes, readBytes}}, true},
	} {
		if got, err := Same(t.Context(), c.path, c.other, c.parts); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := Same(t.Context(), path, filepath.Join(dir, "none"), []Part{{0, 1}}); err == nil {
		t.Error("a file that isn't there is the same")
	}
}
