package image

import (
	"bytes"
	"context"
	"path"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// FuzzApply applies anything to a tree: newTree checks that nothing outside of it changes.
func FuzzApply(f *testing.F) {
	f.Add(pack(f, file("a/b", "1"), symlink("l", "/a"), hardlink("l/c", "a/b"), file("a/.wh.b", ""), file(".wh..wh..opq", "")))
	f.Add(pack(f, folder("a"), symlink("a/up", ".."), file("a/up/x", "1"), file("../y", "")))
	f.Add(gzipped(f, pack(f, file("a", "1"))))
	f.Add(zstded(f, pack(f, file("a", "1"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		tree, _ := newTree(t, Limits{Bytes: 1 << 20, Entries: 100, Packed: 1 << 16})
		applyAll(t, tree, b, b)
		if _, err := tree.Measure(); err != nil {
			t.Error(err)
		}
	})
}

// FuzzOpen reads anything as an archive with an image.
func FuzzOpen(f *testing.F) {
	i, _ := two(f)
	f.Add(dockerSave(f, i))
	f.Add(tarOf(f, writeLayout(f, map[string]v1.Image{"": i})))
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := open(t, save(t, b))
		if err != nil {
			return
		}
		tree, _ := newTree(t, Limits{Bytes: 1 << 20, Entries: 100, Packed: 1 << 16})
		i.Apply(context.Background(), tree, func(string) {})
	})
}

// FuzzNames holds what becomes of names and links to what they mean.
func FuzzNames(f *testing.F) {
	f.Add("a/../b", "../..", 3)
	f.Add("/./x//y", "/x/..", 0)
	f.Add(".wh..", ".wh..wh..opq", 1)
	f.Fuzz(func(t *testing.T, name, target string, depth int) {
		if parts, err := split(name); err == nil {
			for _, p := range parts {
				if p == "" || p == "." || p == ".." || strings.ContainsAny(p, "/\x00") {
					t.Errorf("%q has the part %q", name, p)
				}
			}
		}
		if depth = depth & 7; checkTarget(target, depth) == nil && !strings.HasPrefix(target, "/") {
			below := strings.Repeat("d/", depth)
			if out := path.Clean(below + target); out == ".." || strings.HasPrefix(out, "../") {
				t.Errorf("%q leads out from depth %d", target, depth)
			}
		}
		if kind, removed := classify(name); kind == removes && (removed == "" || removed == "." || removed == "..") {
			t.Errorf("%q removes %q", name, removed)
		}
	})
}

// FuzzDecompress decompresses anything.
func FuzzDecompress(f *testing.F) {
	f.Add(gzipped(f, []byte("text")))
	f.Add(zstded(f, []byte("text")))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decompress(bytes.NewReader(b))
		if err != nil {
			return
		}
		defer r.Close()
		copyBounded(t.Context(), discardHash{}, r, 1<<20)
	})
}
