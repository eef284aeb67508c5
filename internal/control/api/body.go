package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"time"

	space "github.com/space-platform/space"
)

// bodyTimeout bounds how long a client may take over a body.
const bodyTimeout = 30 * time.Second

// checkBody reads a request's body within its limits and checks it strictly; then the generated code can decode it again.
func checkBody(w http.ResponseWriter, r *http.Request, rt route) error {
	if err := checkContentType(r.Header.Get("Content-Type")); err != nil {
		return err
	}
	b, err := readBody(w, r, rt.limit)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	return decodeStrict(b, rt.body())
}

func checkContentType(s string) error {
	if s == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(s)
	if err != nil || media != "application/json" {
		return space.FieldErrorf("Content-Type", "is %q: only application/json is taken", space.Clip(s))
	}
	return nil
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	tooLarge := space.Errorf(space.CodeTooLarge, "the body is over its limit of %d bytes", limit)
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(bodyTimeout)) // not supported by test recorders only
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	_ = c.SetReadDeadline(time.Time{})
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case err != nil:
		return nil, space.Errorf(space.CodeInvalid, "the body could not be read: %w", err)
	}
	return b, nil
}

// decodeStrict decodes one JSON object into a struct. Unknown, repeated and null members are refused by name, and so are values of
// another type; what the values may be is for the use case.
func decodeStrict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return malformed("the body must be a JSON object", err)
	}
	fields := members(into)
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return malformed("the body is not valid JSON", err)
		}
		field, known := fields[name]
		switch {
		case !known:
			return space.FieldErrorf(space.Clip(name), "is not a field of this request")
		case seen[name]:
			return space.FieldErrorf(name, "is given twice")
		}
		seen[name] = true
		if err := decodeMember(d, name, field); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return malformed("the body is not valid JSON", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return malformed("the body goes on after its JSON object", nil)
	}
	return nil
}

func malformed(what string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return space.Errorf(space.CodeInvalid, "%s", what)
	}
	return space.Errorf(space.CodeInvalid, "%s: %w", what, err)
}

// members are the fields of a struct by their names in JSON.
func members(into any) map[string]reflect.Value {
	v := reflect.ValueOf(into).Elem()
	out := map[string]reflect.Value{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		out[name] = v.Field(i)
	}
	return out
}

func decodeMember(d *json.Decoder, name string, field reflect.Value) error {
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return malformed("the body is not valid JSON", err)
	}
	if string(raw) == "null" {
		return space.FieldErrorf(name, "is null: leave it out instead")
	}
	err := json.Unmarshal(raw, field.Addr().Interface())
	var kind *json.UnmarshalTypeError
	var base64Err base64.CorruptInputError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &kind):
		return space.FieldErrorf(name, "has a %s where a %s is needed", kind.Value, jsonKind(kind.Type))
	case errors.As(err, &base64Err):
		return space.FieldErrorf(name, "is not base64: %v", base64Err)
	default:
		return space.FieldErrorf(name, "can't be read: %v", err)
	}
}

// jsonKind is what JSON calls a Go type.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Map, reflect.Struct:
		return "object"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "string in base64"
		}
		return "list"
	default:
		return t.Kind().String()
	}
}
