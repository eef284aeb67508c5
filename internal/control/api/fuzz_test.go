package api

import (
	"encoding/json"
	"reflect"
	"testing"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

// FuzzDecodeStrict holds that what the door lets through is what the generated code reads afterwards.
func FuzzDecodeStrict(f *testing.F) {
	for _, s := range []string{`{}`, `{"argv":["a"],"env":{"A":"b"},"stdin":"aGk="}`, `{"shell":"a"}{}`, `{"shell":null}`, `[]`, `{"shell":"a","shell":"b"}`, `{"SHELL":"a"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var strict, plain gen.SessionCreate
		if decodeStrict(b, &strict) != nil {
			return
		}
		if err := json.Unmarshal(b, &plain); err != nil {
			t.Fatalf("%q came through the door: %v", b, err)
		}
		if !reflect.DeepEqual(strict, plain) {
			t.Fatalf("%q is %+v to the door and %+v behind it", b, strict, plain)
		}
	})
}

// FuzzReadCursor holds that a cursor that is taken names one position.
func FuzzReadCursor(f *testing.F) {
	f.Add("MS5zYnhfYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := readCursor(&s, space.PrefixSandbox)
		if err != nil {
			return
		}
		again := writeCursor(p)
		if q, err := readCursor(again, space.PrefixSandbox); err != nil || !q.CreatedAt.Equal(p.CreatedAt) || q.ID != p.ID {
			t.Fatalf("%q is %v, which is %q, which is %v: %v", s, p, *again, q, err)
		}
	})
}

// FuzzReadNumber holds that a cursor of events that is taken names one number, in one way.
func FuzzReadNumber(f *testing.F) {
	f.Add(writeNumber(0))
	f.Add("ZTAx") // e01
	f.Fuzz(func(t *testing.T, s string) {
		n, err := readNumber(&s)
		if err == nil && writeNumber(*n) != s {
			t.Fatalf("%q is %d, which is %q", s, *n, writeNumber(*n))
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
