package api

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/operations"
	"github.com/space-platform/space/internal/control/sandboxes"
)

// defaultPage is the length of a page when the client doesn't say.
const defaultPage = 50

// checkQuery refuses parameters that the route doesn't take, and such that are given twice.
func checkQuery(r *http.Request, known []string) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return space.FieldErrorf("query", "is malformed: %v", err)
	}
	for name, v := range values {
		if !slices.Contains(known, name) {
			return space.FieldErrorf(space.Clip(name), "is not a query parameter of this operation")
		}
		if len(v) > 1 {
			return space.FieldErrorf(name, "is given %d times: once is allowed", len(v))
		}
	}
	return nil
}

var waitRE = regexp.MustCompile(`^[0-9]{1,6}(ms|s|m)$`)

// readWait reads ?wait=; absent is 0.
func readWait(s *string) (time.Duration, error) {
	if s == nil {
		return 0, nil
	}
	if !waitRE.MatchString(*s) {
		return 0, space.FieldErrorf("wait", "%q is not a wait: a whole number with ms, s or m, for example 30s", space.Clip(*s))
	}
	d, err := time.ParseDuration(*s)
	if err != nil || d > operations.MaxWait {
		return 0, space.FieldErrorf("wait", "is %s: at most %.0fs are allowed", *s, operations.MaxWait.Seconds())
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
