package api

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/operations"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
)

// defaultPage is the length of a page when the client doesn't say.
const defaultPage = 50

// checkQuery refuses parameters that the route doesn't take, and such that are given more often than allowed.
func checkQuery(r *http.Request, rt route) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return space.FieldErrorf("query", "is malformed: %v", err)
	}
	for name, v := range values {
		if !slices.Contains(rt.query, name) {
			return space.FieldErrorf(space.Clip(name), "is not a query parameter of this operation")
		}
		for _, s := range v {
			if !utf8.ValidString(s) { // or it would be compared as other characters than it has
				return space.FieldErrorf(name, "is not valid UTF-8")
			}
		}
		if most := max(1, rt.many[name]); len(v) > most {
			return space.FieldErrorf(name, "is given %d times: at most %d are allowed", len(v), most)
		}
	}
	return nil
}

// waitRE is the pattern of openapi.yaml: up to operations.MaxWait, without needless zeros.
var waitRE = regexp.MustCompile(`^(([12]?[0-9]{1,5}|300000)ms|([12]?[0-9]{1,2}|300)s|[0-5]m)$`)

// readWait reads ?wait=; absent is 0.
func readWait(s *string) (time.Duration, error) {
	if s == nil {
		return 0, nil
	}
	return readTime("wait", *s, operations.MaxWait)
}

// readGrace reads ?grace=; absent is what a stop gives without being told.
func readGrace(s *string) (time.Duration, error) {
	if s == nil {
		return sandboxes.DefaultGrace, nil
	}
	return readTime("grace", *s, sandboxes.MaxGrace)
}

// readTime reads how long something may take.
func readTime(field, s string, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err == nil && d > most:
		return 0, space.FieldErrorf(field, "is %s: at most %.0fs are allowed", space.Clip(s), most.Seconds())
	case err != nil || !waitRE.MatchString(s):
		return 0, space.FieldErrorf(field, "%q is not a time: a whole number with ms, s or m, for example 30s; at most %.0fs are allowed", space.Clip(s), most.Seconds())
	}
	return d, nil
}

// readLimit reads ?limit=.
func readLimit(n *int) (int, error) {
	if n == nil {
		return defaultPage, nil
	}
	if *n < 1 || *n > sandboxes.MaxPage {
		return 0, space.FieldErrorf("limit", "is %d: it must be 1 to %d", *n, sandboxes.MaxPage)
	}
	return *n, nil
}

// readPage reads ?cursor= and ?limit= of a list.
func readPage(l list, cursor *string, limit *int) (record.Position, int, error) {
	after, err := l.read(cursor)
	if err != nil {
		return record.Position{}, 0, err
	}
	n, err := readLimit(limit)
	return after, n, err
}

// readMetadata reads ?metadata=name=value, as often as it's given.
func readMetadata(entries *[]string) (map[string]string, error) {
	if entries == nil {
		return nil, nil
	}
	out := map[string]string{}
	for _, e := range *entries {
		name, value, ok := strings.Cut(e, "=")
		if !ok {
			return nil, space.FieldErrorf("metadata", "%q is not an entry: name=value", space.Clip(e))
		}
		if _, twice := out[name]; twice {
			return nil, space.FieldErrorf("metadata", "asks for %q twice", space.Clip(name))
		}
		out[name] = value
	}
	return out, nil
}
