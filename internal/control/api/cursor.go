package api

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// A cursor is opaque to clients: the time, in microseconds as the database has it, and the id of the last thing they got.

// writeCursor names a position; nil for the one behind the last page.
func writeCursor(p record.Position) *string {
	if p.ID == "" {
		return nil
	}
	s := base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.CreatedAt.UnixMicro(), 10) + "." + p.ID))
	return &s
}

// readCursor is its inverse, in a list of things of that kind; absent is the beginning.
func readCursor(s *string, of space.Prefix) (record.Position, error) {
	if s == nil {
		return record.Position{}, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(*s)
	if err != nil {
		return record.Position{}, badCursor()
	}
	at, id, _ := strings.Cut(string(b), ".")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil || micros < 0 || micros > maxMicros || space.CheckID(of, id) != nil {
		return record.Position{}, badCursor()
	}
	return record.Position{CreatedAt: time.UnixMicro(micros), ID: id}, nil
}

// maxMicros is the year 9999, which the database can still compare with.
const maxMicros = 253_402_300_799_000_000

func badCursor() error {
	return space.FieldErrorf("cursor", "is not a cursor of this API: use next_cursor of the page before, as it is")
}

// An event's cursor is its number.

func writeNumber(n int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("e" + strconv.FormatInt(n, 10)))
}

// readNumber is its inverse; absent is nil.
func readNumber(s *string) (*int64, error) {
	if s == nil {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(*s)
	if err != nil {
		return nil, badCursor()
	}
	digits, ok := strings.CutPrefix(string(b), "e")
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || writeNumber(n) != *s {
		return nil, badCursor()
	}
	return &n, nil
}
