package api

import (
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
	})
}
