package edge

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	space "github.com/space-platform/space"
	httpapi "github.com/space-platform/space/api/gen/http"
)

// problem is an error as a client reads it: RFC 9457. Of an error without a code it tells nothing.
func problem(err error) httpapi.Problem {
	var e *space.Error
	if !errors.As(err, &e) {
		e = &space.Error{Code: space.CodeInternal, Message: "an internal error; the operator's log has the cause"}
	}
	p := httpapi.Problem{Type: e.Code.ProblemType(), Title: e.Code.Title(), Status: e.Code.HTTPStatus(), Code: string(e.Code), Detail: &e.Message}
	if e.Field != "" {
		p.Field = &e.Field
	}
	return p
}

// writeProblem answers a request with an error.
func writeProblem(w http.ResponseWriter, err error) {
	p, h := problem(err), w.Header()
	request := h.Get(requestID)
	p.RequestId = &request
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

// only serves the methods that a path has. GET does not imply HEAD: a HEAD of attach would start a session.
func (e *Edge) only(handlers map[string]http.HandlerFunc) http.HandlerFunc {
	allow := slices.Sorted(maps.Keys(handlers))
	return func(w http.ResponseWriter, r *http.Request) {
		if h, ok := handlers[r.Method]; ok {
			h(w, r)
			return
		}
		if e.preflight(w, r, allow) {
			return
		}
		w.Header().Set("Allow", strings.Join(allow, ", "))
		writeProblem(w, space.Errorf(space.CodeMethod, "method %s isn't served here; use %s", space.Clip(r.Method), strings.Join(allow, " or ")))
	}
}
