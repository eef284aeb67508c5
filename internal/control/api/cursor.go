package api

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/envelope"
)

// A cursor is sealed: who has it can read nothing in it, and can make none. It's good for the one list that it came from.

// list is one list of one project.
type list struct {
	key  *envelope.Key
	name string
}

// list names the list of things of a kind that the caller sees, in the one thing of theirs that has the list, if it's in one.
func (h handlers) list(ctx context.Context, kind string, in ...string) list {
	return list{h.Cursors, strings.Join(append([]string{"cursor", caller(ctx).Project, kind}, in...), "\x00")}
}

// write names a position: the time, in microseconds as the database has it, and the id of the last thing that the client got. It's nil
// for the one behind the last page.
func (l list) write(p record.Position) (*string, error) {
	if p.ID == "" {
		return nil, nil
	}
	s, err := l.seal(strconv.FormatInt(p.CreatedAt.UnixMicro(), 10) + "." + p.ID)
	return &s, err
}

// read is its inverse; absent is the beginning.
func (l list) read(cursor *string) (record.Position, error) {
	if cursor == nil {
		return record.Position{}, nil
	}
	text, err := l.open(*cursor)
	if err != nil {
		return record.Position{}, err
	}
	at, id, _ := strings.Cut(text, ".")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return record.Position{}, badCursor()
	}
	return record.Position{CreatedAt: time.UnixMicro(micros), ID: id}, nil
}

// writeNumber names a position in a list of numbered things.
func (l list) writeNumber(n int64) (string, error) { return l.seal(strconv.FormatInt(n, 10)) }

// readNumber is its inverse; absent is nil.
func (l list) readNumber(cursor *string) (*int64, error) {
	if cursor == nil {
		return nil, nil
	}
	text, err := l.open(*cursor)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, badCursor()
	}
	return &n, nil
}

func (l list) seal(text string) (string, error) {
	b, err := l.key.Seal([]byte(text), l.name)
	return base64.RawURLEncoding.EncodeToString(b), err
}

func (l list) open(cursor string) (string, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err == nil {
		b, err = l.key.Open(b, l.name)
	}
	if err != nil {
		return "", badCursor()
	}
	return string(b), nil
}

func badCursor() error {
	return space.FieldErrorf("cursor", "is not a cursor of this list: use next_cursor of the page before, as it is")
}
