package edge

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/strictjson"
)

// Limits of bodies, in bytes.
const (
	maxJSON        = 64 << 10
	maxSessionJSON = 3 << 20  // 1 MiB of stdin in base64, 128 KiB each of arguments and environment, however they're escaped
	pieceBytes     = 32 << 10 // of an upload in one message
)

// body reads a request's body piece by piece. A client that brings too little in the time of progress is given up.
type body struct {
	w    *answer
	from io.Reader
	buf  []byte
	live bool // pieces are handed on as they come, else when they're full
}

func newBody(w *answer, r *request, live bool) *body {
	return &body{w: w, from: r.Body, buf: make([]byte, pieceBytes), live: live}
}

// next returns the next piece, which is good until the one after it; last says that the body ends with it.
func (b *body) next() (piece []byte, last bool, err error) {
	b.w.flow.SetReadDeadline(time.Now().Add(b.w.progress))
	n, err := fill(b.from, b.buf, b.least())
	switch {
	case err == nil:
		return b.buf[:n], false, nil
	case errors.Is(err, io.EOF):
		b.w.flow.SetReadDeadline(time.Time{}) // the server itself reads on, to learn that the client leaves
		return b.buf[:n], true, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, false, space.Errorf(space.CodeTimeout, "the body brought less than %d bytes in %s", b.least(), b.w.progress)
	}
	return nil, false, space.Errorf(space.CodeInvalid, "the body broke off: %w", err)
}

func (b *body) least() int {
	if b.live {
		return 1
	}
	return pieceBytes
}

// fill reads until least bytes are there or the body ends, which is io.EOF only if it ended as it should.
func fill(r io.Reader, b []byte, least int) (n int, err error) {
	for n < least && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}

// readAll reads a body of JSON whole.
func readAll(w *answer, r *request, limit int64) ([]byte, error) {
	if s := r.Header.Get("Content-Type"); s != "" {
		if media, _, err := mime.ParseMediaType(s); err != nil || media != "application/json" {
			return nil, &space.Error{Code: space.CodeMediaType, Field: "Content-Type", Message: fmt.Sprintf("is %q: only application/json is taken", space.Clip(s))}
		}
	}
	tooLarge := space.Errorf(space.CodeTooLarge, "the body is over its limit of %d bytes", limit)
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	w.flow.SetReadDeadline(time.Now().Add(w.whole))
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	w.flow.SetReadDeadline(time.Time{})
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, space.Errorf(space.CodeTimeout, "the body didn't come within %s", w.whole)
	case err != nil:
		return nil, space.Errorf(space.CodeInvalid, "the body broke off: %w", err)
	}
	return b, nil
}

// readJSON reads a body of one JSON object.
func readJSON(w *answer, r *request, into any) error {
	b, err := readAll(w, r, maxJSON)
	if err != nil {
		return err
	}
	return strictjson.Decode(b, into)
}

// checkEncoding refuses a body that is compressed: what's brought is kept as it comes, and nobody would know that it was.
func checkEncoding(h http.Header) error {
	if s := h.Get("Content-Encoding"); s != "" && !strings.EqualFold(s, "identity") {
		return &space.Error{Code: space.CodeMediaType, Field: "Content-Encoding", Message: fmt.Sprintf("is %q: a body is taken as it is, uncompressed", space.Clip(s))}
	}
	return nil
}
