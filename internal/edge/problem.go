package edge

import (
	"encoding/json"
	"errors"
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
	status := e.Code.HTTPStatus()
	p := httpapi.Problem{Type: "urn:space:problem:" + string(e.Code), Title: http.StatusText(status), Status: status, Code: string(e.Code), Detail: &e.Message}
	if e.Field != "" {
		p.Field = &e.Field
	}
	return p
}

// writeProblem answers a request with an error.
func writeProblem(w http.ResponseWriter, err error) {
	writeProblemStatus(w, problem(err))
}

func writeProblemStatus(w http.ResponseWriter, p httpapi.Problem) {
	request := space.NewID(space.PrefixRequest)
	p.RequestId = &request
	h := w.Header()
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

// only lets requests of some methods through. GET does not imply HEAD: a HEAD of attach would start a session.
func only(h http.HandlerFunc, methods ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(methods, r.Method) {
			h(w, r)
			return
		}
		w.Header().Set("Allow", strings.Join(methods, ", "))
		p := problem(space.Errorf(space.CodeInvalid, "method %s isn't served here; use %s", space.Clip(r.Method), methods[0]))
		p.Status, p.Title = http.StatusMethodNotAllowed, http.StatusText(http.StatusMethodNotAllowed)
		writeProblemStatus(w, p)
	}
}
