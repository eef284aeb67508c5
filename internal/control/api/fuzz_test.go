package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/envelope"
)

// FuzzCursor holds that only what was written for a list is read there, and reads as what was written.
func FuzzCursor(f *testing.F) {
	key := envelope.New([32]byte{3})
	mine, other := list{key, "cursor\x00prj_1\x00sandboxes"}, list{key, "cursor\x00prj_2\x00sandboxes"}
	f.Add("MS5zYnhfYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE", int64(1), "sbx_a")
	f.Fuzz(func(t *testing.T, s string, micros int64, id string) {
		if p, err := mine.read(&s); err == nil {
			t.Fatalf("%q, which nobody wrote, is %v", s, p)
		}
		p := record.Position{CreatedAt: time.UnixMicro(micros), ID: id}
		cursor, err := mine.write(p)
		if err != nil || (cursor == nil) != (id == "") {
			t.Fatalf("%v is %v, %v", p, cursor, err)
		}
		if cursor == nil {
			return
		}
		if q, err := mine.read(cursor); err != nil || !q.CreatedAt.Equal(p.CreatedAt) || q.ID != p.ID {
			t.Fatalf("%v came back as %v, %v", p, q, err)
		}
		if q, err := other.read(cursor); err == nil {
			t.Fatalf("in another list it's %v", q)
		}
	})
}

// FuzzReadWait holds that a wait is bounded.
func FuzzReadWait(f *testing.F) {
	f.Add("30s")
	f.Add("999999m")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := readWait(&s); err == nil && (d < 0 || d > 300e9) {
			t.Fatalf("%q is %s", s, d)
		}
		if d, err := readGrace(&s); err == nil && (d < 0 || d > 300e9) {
			t.Fatalf("%q is a grace of %s", s, d)
		}
	})
}

// FuzzFilter holds that a filter is what a client wrote, and that what is told of a wrong one is short.
func FuzzFilter(f *testing.F) {
	f.Add("a=b", "a=c")
	f.Add("=", "a==b")
	f.Add("\xff=\x00", "a")
	f.Fuzz(func(t *testing.T, one, other string) {
		m, err := readMetadata(&[]string{one, other})
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		for _, s := range []string{one, other} {
			name, value, ok := strings.Cut(s, "=")
			if got, there := m[name]; !ok || !there || got != value || len(m) != 2 {
				t.Fatalf("%q and %q are %q", one, other, m)
			}
		}
	})
}

// FuzzReadLast holds that the id of a last event is one that the feed may have sent.
func FuzzReadLast(f *testing.F) {
	for _, s := range []string{"0", "9223372036854775807", "9223372036854775808", "-1", "+1", "0x1", " 1", "1\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := readLast(&s)
		switch {
		case err != nil && n != nil:
			t.Fatalf("%q is refused and %d", s, *n)
		case err == nil && (n == nil || *n < 0 || fmt.Sprintf("%0*d", len(s), *n) != s):
			t.Fatalf("%q is %v", s, n)
		}
	})
}
