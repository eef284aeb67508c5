package api

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	space "github.com/space-platform/space"
)

// maxInFlight bounds the requests that are served at once, those that wait for an operation included.
const maxInFlight = 1024

// door lets a request through to its handler when its route exists, its key is valid and what it brings is well-formed.
type door struct {
	mux      *http.ServeMux
	keys     authenticator
	forBody  time.Duration // what a client may take over a body
	inFlight chan struct{}
}

func newDoor(mux *http.ServeMux, keys authenticator, forBody time.Duration) *door {
	return &door{mux: mux, keys: keys, forBody: forBody, inFlight: make(chan struct{}, maxInFlight)}
}

// ServeHTTP implements http.Handler.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case d.inFlight <- struct{}{}:
		defer func() { <-d.inFlight }()
	default:
		fail(w, r, space.Errorf(space.CodeUnavailable, "%d requests are being served, which is the limit: try again in a moment", maxInFlight))
		return
	}
	rt, ok := routes[d.pattern(r)]
	if !ok {
		fail(w, r, d.unrouted(w, r))
		return
	}
	r, leave, err := d.enter(r, rt)
	defer leave()
	if err == nil {
		err = d.check(w, r, rt)
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	d.mux.ServeHTTP(w, r)
}

// enter returns the request with its caller in the context, once it's known that they may do what they ask for. Call leave in any case.
func (d *door) enter(r *http.Request, rt route) (in *http.Request, leave func(), err error) {
	leave = func() {}
	if rt.open {
		return r, leave, nil
	}
	i, err := d.keys.authenticate(r.Context(), r.Header.Values("Authorization"))
	if err != nil {
		return r, leave, err
	}
	if err := permit(i.key, rt.needs); err != nil {
		return r, leave, err
	}
	ctx := context.WithValue(r.Context(), callerKey{}, i)
	if wantsStream(r) {
		ctx = context.WithValue(ctx, streamKey{}, true)
	}
	if lasting(r) {
		ctx, leave = d.keys.guard(ctx, i, rt.needs)
	}
	return r.WithContext(ctx), leave, nil
}

// check refuses a request whose query or body isn't well-formed.
func (d *door) check(w http.ResponseWriter, r *http.Request, rt route) error {
	if err := checkQuery(r, rt); err != nil {
		return err
	}
	switch {
	case rt.body == nil && r.ContentLength != 0: // unknown counts: nobody reads it, so nobody may rely on what it says
		return space.FieldErrorf("body", "this operation takes no body: what it takes stands in the address, behind a ?")
	case rt.body == nil:
		return nil
	}
	return checkBody(w, r, rt, d.forBody)
}

// pattern is the route that a request takes; empty if there's none. A path that isn't in its shortest form has none.
func (d *door) pattern(r *http.Request) string {
	if !strings.HasPrefix(r.URL.Path, "/") || path.Clean(r.URL.Path) != r.URL.Path {
		return ""
	}
	_, pattern := d.mux.Handler(r)
	return pattern
}

// unrouted says whether the path or only the method is wrong.
func (d *door) unrouted(w http.ResponseWriter, r *http.Request) error {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if d.pattern(probe) != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 || slices.Contains(allowed, r.Method) {
		return space.Errorf(space.CodeNotFound, "nothing is served at this path; GET /openapi.yaml tells what is")
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return space.Errorf(space.CodeMethod, "%s is not served at this path, only %s", space.Clip(r.Method), strings.Join(allowed, ", "))
}
