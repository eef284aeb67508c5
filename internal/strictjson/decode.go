// Package strictjson reads JSON that a client sends: one object, of a struct's members, with nothing that would be read as something else or not
// at all. Its errors name the member.
package strictjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	space "github.com/space-platform/space"
)

// Decode decodes one JSON object into a struct, and the objects within it likewise. Unknown, repeated and null members are refused by name, and so are values of
// another type, and objects without a member whose field has no omitempty; what the values may be is for the caller. A whole number may be written as 3.0 or 3e0,
// as JSON Schema has it.
func Decode(b []byte, into any) error {
	switch { // or the decoder would put other characters in silently, into a command for example
	case !utf8.Valid(b):
		return space.Errorf(space.CodeInvalid, "the body is not valid UTF-8")
	case !wholeEscapes(b):
		return space.Errorf(space.CodeInvalid, `the body has half a character: \ud800 to \udfff come in pairs, a high one before a low one`)
	}
	return decodeObject(b, reflect.ValueOf(into).Elem(), "")
}

// decodeObject decodes one JSON object into the struct v; path names it, empty for the body itself.
func decodeObject(b []byte, v reflect.Value, path string) error {
	fields := members(v)
	seen := map[string]bool{}
	err := eachMember(b, func(d *json.Decoder, name string) error {
		field, known := fields[name]
		switch {
		case !known:
			return space.FieldErrorf(join(path, space.Clip(name)), "is not a field of this request")
		case seen[name]:
			return space.FieldErrorf(join(path, name), "is given twice")
		}
		seen[name] = true
		return decodeMember(d, join(path, name), field)
	})
	if err != nil {
		return err
	}
	return checkNeeded(v.Type(), seen, path)
}

// checkNeeded refuses an object without a member that it must have: one whose field has no omitempty, as what is generated has for those that may be left out.
func checkNeeded(t reflect.Type, seen map[string]bool, path string) error {
	for i := range t.NumField() {
		if name, named := memberName(t.Field(i)); named && !seen[name] && !strings.Contains(t.Field(i).Tag.Get("json"), ",omitempty") {
			return space.FieldErrorf(join(path, name), "is missing")
		}
	}
	return nil
}

// eachMember calls f with the name of each member of one JSON object; f reads the value. Nothing may follow the object.
func eachMember(b []byte, f func(d *json.Decoder, name string) error) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return malformed("the body must be a JSON object", err)
	}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return malformed("the body is not valid JSON", err)
		}
		if err := f(d, name); err != nil {
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

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func malformed(what string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return space.Errorf(space.CodeInvalid, "%s", what)
	}
	return &space.Error{Code: space.CodeInvalid, Message: what + ": " + err.Error(), Err: err}
}

// members are the fields of a struct by their names in JSON.
func members(v reflect.Value) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	for i := range v.NumField() {
		if name, named := memberName(v.Type().Field(i)); named {
			out[name] = v.Field(i)
		}
	}
	return out
}

// memberName is a field's name in JSON. One without a name isn't a member.
func memberName(f reflect.StructField) (name string, named bool) {
	name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	return name, f.IsExported() && name != ""
}

func decodeMember(d *json.Decoder, path string, field reflect.Value) error {
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return malformed("the body is not valid JSON", err)
	}
	return decodeValue(raw, path, field)
}

// decodeValue decodes one value, whose syntax was found to be right.
func decodeValue(raw json.RawMessage, path string, into reflect.Value) error {
	if string(raw) == "null" {
		return space.FieldErrorf(path, "is null: leave it out instead")
	}
	t := into.Type()
	switch {
	case ownDecoder(t):
	case t.Kind() == reflect.Pointer:
		into.Set(reflect.New(t.Elem()))
		return decodeValue(raw, path, into.Elem())
	case t.Kind() == reflect.Struct && raw[0] == '{':
		return decodeObject(raw, into, path)
	case t.Kind() == reflect.Map && raw[0] == '{':
		return decodeMap(raw, path, into)
	case isBytes(t) && raw[0] == '[': // of numbers, which the library takes
		return space.FieldErrorf(path, "has an array where a string in base64 is needed")
	case t.Kind() == reflect.Slice && raw[0] == '[':
		return decodeList(raw, path, into)
	}
	if t.Kind() == reflect.Int || t.Kind() == reflect.Int64 {
		raw = whole(raw)
	}
	return decodePlain(raw, path, into)
}

// maxWhole is a number below which each whole one has a float64 of its own.
const maxWhole = 1 << 53

// whole is a number without its fraction or exponent, if it's whole; anything else as it is.
func whole(raw json.RawMessage) json.RawMessage {
	if !bytes.ContainsAny(raw, ".eE") {
		return raw
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= maxWhole {
		return raw
	}
	return strconv.AppendInt(nil, int64(f), 10)
}

// decodeList decodes a list, and names the item that is wrong.
func decodeList(raw json.RawMessage, path string, into reflect.Value) error {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return malformed("the body is not valid JSON", err)
	}
	out := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		if err := decodeValue(item, fmt.Sprintf("%s[%d]", path, i), out.Index(i)); err != nil {
			return err
		}
	}
	into.Set(out)
	return nil
}

// decodeMap decodes an object whose names the client chooses, each of which it may use once.
func decodeMap(raw json.RawMessage, path string, into reflect.Value) error {
	t := into.Type()
	out := reflect.MakeMap(t)
	err := eachMember(raw, func(d *json.Decoder, name string) error {
		key := reflect.ValueOf(name).Convert(t.Key())
		at := join(path, space.Clip(name))
		if out.MapIndex(key).IsValid() {
			return space.FieldErrorf(at, "is given twice")
		}
		value := reflect.New(t.Elem()).Elem()
		if err := decodeMember(d, at, value); err != nil {
			return err
		}
		out.SetMapIndex(key, value)
		return nil
	})
	if err == nil {
		into.Set(out)
	}
	return err
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// ownDecoder reports whether a type reads JSON in a way of its own, as time.Time does. What is generated for an object of which some members go together has a
// decoder, too, which isn't strict: such an object is read by its members.
func ownDecoder(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Struct && hasMembers(t) {
		return false
	}
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

func hasMembers(t reflect.Type) bool {
	for i := range t.NumField() {
		if _, named := memberName(t.Field(i)); named {
			return true
		}
	}
	return false
}

func decodePlain(raw json.RawMessage, path string, into reflect.Value) error {
	err := json.Unmarshal(raw, into.Addr().Interface())
	var kind *json.UnmarshalTypeError
	var base64Err base64.CorruptInputError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &kind):
		return space.FieldErrorf(path, "has %s where %s is needed", article(kind.Value), article(jsonKind(kind.Type)))
	case errors.As(err, &base64Err):
		return space.FieldErrorf(path, "is not base64: %v", base64Err)
	default:
		return space.FieldErrorf(path, "can't be read: %v", err)
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

func article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}
