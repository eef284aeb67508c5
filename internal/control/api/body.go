package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/strictjson"
)

// bodyTimeout bounds how long a client may take over a body.
const bodyTimeout = 30 * time.Second

// checkBody reads a request's body within its limits and checks it strictly; then the generated code decodes what was understood.
func checkBody(w http.ResponseWriter, r *http.Request, rt route, within time.Duration) error {
	if err := checkContentType(r.Header.Get("Content-Type")); err != nil {
		return err
	}
	b, err := readBody(w, r, rt.limit, within)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	if len(b) == 0 && rt.bare {
		return nil
	}
	into := rt.body()
	if err := strictjson.Decode(b, into); err != nil {
		return err
	}
	if err := checkFilled(b, rt.filled); err != nil {
		return err
	}
	if b, err = json.Marshal(into); err != nil { // in the one way that the generated code reads: for example 3 for 3.0
		return space.Errorf(space.CodeInvalid, "the body can't be read: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	return nil
}

// checkFilled refuses texts that are given empty, which the decoded body doesn't tell from those that aren't given.
func checkFilled(b []byte, fields []string) error {
	if len(fields) == 0 {
		return nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(b, &given); err != nil {
		return space.Errorf(space.CodeInvalid, "the body can't be read: %w", err)
	}
	for _, name := range fields {
		if string(given[name]) == `""` {
			return space.FieldErrorf(name, "is empty")
		}
	}
	return nil
}

func checkContentType(s string) error {
	if s == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(s)
	if err != nil || media != "application/json" {
		return &space.Error{Code: space.CodeMediaType, Field: "Content-Type", Message: fmt.Sprintf("is %q: only application/json is taken", space.Clip(s))}
	}
	return nil
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64, within time.Duration) ([]byte, error) {
	tooLarge := space.Errorf(space.CodeTooLarge, "the body is over its limit of %d bytes", limit)
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(within)) // not supported by test recorders only
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	_ = c.SetReadDeadline(time.Time{})
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, space.Errorf(space.CodeTimeout, "the body didn't come within %s", within)
	case err != nil:
		return nil, space.Errorf(space.CodeInvalid, "the body broke off: %w", err)
	}
	return b, nil
}
