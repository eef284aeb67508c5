package pager

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const setMemory = 1 << 20

func TestAWorkingSetIsReadAsItWasWritten(t *testing.T) {
	want := []uint32{255, 0, 17, 17}
	got, err := parseSet(encodeSet(want, "a", setMemory), "a", setMemory)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("read %v, %v, want %v", got, err, want)
	}
}

func TestABadWorkingSetIsRefused(t *testing.T) {
	good := encodeSet([]uint32{1, 2, 3}, "a", setMemory)
	change := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	for name, b := range map[string][]byte{
		"empty":             {},
		"cut off":           good[:len(good)-1],
		"cut off in a page": good[:setHeader+5],
		"too long":          append(bytes.Clone(good), 0),
		"a flipped bit":     change(func(b []byte) []byte { b[setHeader] ^= 1; return b }),
		"another magic":     change(func(b []byte) []byte { b[0] = 'X'; return b }),
		"another snapshot":  encodeSet([]uint32{1}, "b", setMemory),
		"another memory":    encodeSet([]uint32{1}, "a", 2*setMemory),
		"a page outside":    encodeSet([]uint32{256}, "a", setMemory),
	} {
		if set, err := parseSet(b, "a", setMemory); err == nil {
			t.Errorf("%s: read %v", name, set)
		}
	}
}

func FuzzParseSet(f *testing.F) {
	f.Add(encodeSet([]uint32{1, 2, 3}, "a", setMemory))
	f.Add(encodeSet(nil, "a", setMemory))
	f.Fuzz(func(t *testing.T, b []byte) {
		set, err := parseSet(b, "a", setMemory)
		if err == nil && !bytes.Equal(encodeSet(set, "a", setMemory), b) {
			t.Fatalf("%v has another form", set)
		}
	})
}

// A set is recorded once, by one; when it's whole, all others read it.
func TestASetIsRecordedOnceAndThenRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "set")
	set, record := openSet(path, "a", setMemory)
	if set != nil || record == nil {
		t.Fatalf("at first: %v, %v, want to record it", set, record)
	}
	if set, other := openSet(path, "a", setMemory); set != nil || other != nil {
		t.Fatalf("while it's recorded: %v, %v", set, other)
	}
	record.Close() // without having written anything
	if set, record = openSet(path, "a", setMemory); set != nil || record == nil {
		t.Fatalf("when that was abandoned: %v, %v, want to record it", set, record)
	}
	r := recordTo(record, "a", setMemory)
	if err := r.write([]uint32{5, 4}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		set, record := openSet(path, "a", setMemory)
		if set == nil || record != nil {
			t.Fatalf("when it's whole: %v, %v, want to read it", set, record)
		}
		if got, err := readSet(set, "a", setMemory); err != nil || !slices.Equal(got, []uint32{5, 4}) {
			t.Errorf("it has %v, %v", got, err)
		}
		if _, err := set.Write([]byte("x")); err == nil {
			t.Error("who reads it may write it")
		}
		set.Close()
	}
}

// One that is damaged or another snapshot's is ignored, and made anew by the next.
func TestADamagedSetIsIgnoredAndMadeAnew(t *testing.T) {
	dir := t.TempDir()
	for name, b := range map[string][]byte{
		"cut off": encodeSet([]uint32{1}, "a", setMemory)[:40],
		"swapped": encodeSet([]uint32{1}, "b", setMemory),
		"endless": []byte(strings.Repeat(setMagic, maxSet/10)),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if set, record := openSet(path, "a", setMemory); set != nil || record != nil {
			t.Errorf("%s: %v, %v, want none", name, set, record)
		}
		set, record := openSet(path, "a", setMemory)
		if set != nil || record == nil {
			t.Fatalf("%s, then: %v, %v, want to record it", name, set, record)
		}
		record.Close()
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if set, _ := openSet(filepath.Join(dir, "link"), "a", setMemory); set != nil {
		b, _ := io.ReadAll(set)
		t.Errorf("a link leads to %.20q", b)
	}
	if set, record := openSet(filepath.Join(dir, "none", "set"), "a", setMemory); set != nil || record != nil {
		t.Error("a directory that isn't there is fine")
	}
}
