package edge

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	space "github.com/space-platform/space"
)

// Limits of the parameters, in bytes.
const (
	maxQuery     = 16 << 10
	maxPath      = 4096 - 1 // the kernel's PATH_MAX counts its terminator
	maxSignature = 256
	maxExpires   = 999_999_999_999 // seconds since 1970: twelve digits
)

// query is the parameters of a request: each is one that its operation takes, and came once.
type query map[string]string

// readQuery reads a query strictly: what isn't taken is refused by name, so that a slip of the pen isn't ignored.
func readQuery(raw string, takes []string) (query, error) {
	if len(raw) > maxQuery {
		return nil, space.FieldErrorf("query", "has %d bytes, at most %d are taken", len(raw), maxQuery)
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, space.FieldErrorf("query", "can't be read: a %% needs two hexadecimal digits, and & separates parameters")
	}
	q := query{}
	for name, v := range values {
		switch {
		case !slices.Contains(takes, name):
			return nil, space.FieldErrorf(space.Clip(strings.ToValidUTF8(name, "?")), "isn't a parameter of this request")
		case len(v) > 1:
			return nil, space.FieldErrorf(name, "is given %d times", len(v))
		}
		q[name] = v[0]
	}
	return q, nil
}

// path is a path in the guest, which resolves it.
func (q query) path() (string, error) { return checkPath("path", q["path"]) }

func checkPath(field, p string) (string, error) {
	switch {
	case p == "":
		return "", space.FieldErrorf(field, "is missing: a path in the sandbox")
	case len(p) > maxPath:
		return "", space.FieldErrorf(field, "has %d bytes, at most %d are taken", len(p), maxPath)
	case strings.ContainsRune(p, 0):
		return "", space.FieldErrorf(field, "has a NUL byte")
	case !utf8.ValidString(p):
		return "", space.FieldErrorf(field, "isn't valid UTF-8")
	}
	return p, nil
}

// user is as whom to do it, "" for the default.
func (q query) user() (string, error) { return q["user"], space.CheckUser("user", q["user"]) }

// flag is a parameter that is true or false, false if it's absent.
func (q query) flag(name string) (bool, error) {
	switch q[name] {
	case "", "false":
		if v, there := q[name]; there && v == "" {
			break
		}
		return false, nil
	case "true":
		return true, nil
	}
	return false, space.FieldErrorf(name, "is %q: want true or false", space.Clip(q[name]))
}

// letsSleep tells whether a sandbox that sleeps is to be left asleep.
func (q query) letsSleep() (bool, error) {
	if _, there := q["wake"]; !there {
		return false, nil
	}
	wake, err := q.flag("wake")
	return !wake && err == nil, err
}

// number is a parameter with a whole number from least to most, otherwise if it's absent.
func (q query) number(name string, least, most, otherwise uint64) (uint64, error) {
	s, there := q[name]
	if !there {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n < least || n > most || s[0] == '+' {
		return 0, space.FieldErrorf(name, "is %q: want a whole number from %d to %d", space.Clip(s), least, most)
	}
	return n, nil
}

// expires is until when a signed URL is good, in seconds since 1970; 0 if it's absent.
func (q query) expires() (int64, error) {
	n, err := q.number("expires", 0, maxExpires, 0)
	return int64(n), err
}

// mode is permission bits in octal, nil if they're absent.
func (q query) mode() (*uint32, error) {
	s, there := q["mode"]
	if !there {
		return nil, nil
	}
	bits, err := checkMode("mode", s)
	return &bits, err
}

func checkMode(field, s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 8, 12)
	if err != nil || len(s) < 3 || len(s) > 4 {
		return 0, space.FieldErrorf(field, "is %q: want three or four octal digits, for example 0644", space.Clip(s))
	}
	return uint32(n), nil
}
