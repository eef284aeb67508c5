package seal

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// write makes a file of blocks: 0 is a hole, 1 zeroes, 2 and more their number in each byte.
func write(t rapid.TB, dir, name string, blocks []byte) string {
	path := filepath.Join(dir, name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(len(blocks)) * blockBytes); err != nil {
		t.Fatal(err)
	}
	for i, b := range blocks {
		if b == 0 {
			continue
		}
		if _, err := f.WriteAt(bytes.Repeat([]byte{b - 1}, blockBytes), int64(i)*blockBytes); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestSealKeepsTheContentAndTheDigestIgnoresHoles(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.SliceOfN(rapid.ByteRange(0, 4), 0, 40).Draw(t, "blocks")
		filled := bytes.ReplaceAll(blocks, []byte{0}, []byte{1})
		sparse, full := write(t, dir, "sparse", blocks), write(t, dir, "full", filled)
		want, err := os.ReadFile(full)
		if err != nil {
			t.Fatal(err)
		}
		a, err := File(context.Background(), sparse)
		if err != nil {
			t.Fatal(err)
		}
		b, err := File(context.Background(), full)
		if err != nil {
			t.Fatal(err)
		}
		if a != b {
			t.Fatalf("the sparse file is %+v, the full one %+v", a, b)
		}
		if got, err := os.ReadFile(full); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("the content has changed, %v", err)
		}
		data := int64(len(filled)-bytes.Count(filled, []byte{1})) * blockBytes
		if a.Bytes != int64(len(want)) || a.Data != data {
			t.Fatalf("got %+v, want %d bytes of data in %d", a, data, len(want))
		}
	})
}

func TestSealDigestTellsFilesApart(t *testing.T) {
	dir := t.TempDir()
	seen := map[string]string{}
	for name, blocks := range map[string][]byte{"a": {2, 0}, "b": {0, 2}, "c": {2, 2}, "d": {3, 0}, "e": {}} {
		info, err := File(t.Context(), write(t, dir, name, blocks))
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[info.SHA256]; ok {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[info.SHA256] = name
	}
}
