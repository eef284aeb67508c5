package telemetry

import (
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	httpRequests = NewCounter("space_http_requests_total", "Requests of clients that have ended.", "route", "method", "status")
	httpDuration = NewDurations("space_http_request_duration_seconds", "From a request's header to the end of its answer; streams and waits last.", "route", "method")
)

// noRoute is the route of what is served nowhere.
const noRoute = "none"

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// HTTP is the outermost handler of a server for clients: it gives each request the id that newID makes, in its context and in the answer's
// header, counts it, spans it and logs how it ended. route is the pattern of the mux that serves a request, empty for none. Of a request it keeps nothing but
// its route and method.
func HTTP(next http.Handler, newID func() string, route func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, id, pattern, method := time.Now(), newID(), routeLabel(route(r)), methodLabel(r.Method)
		ctx, end := serveSpan(WithRequest(r.Context(), id), method+" "+pattern, r.Header)
		out := &statusWriter{ResponseWriter: w}
		out.Header().Set(RequestHeader, id)
		defer func() {
			status := out.ended()
			httpRequests.WithLabelValues(pattern, method, strconv.Itoa(status)).Inc()
			httpDuration.WithLabelValues(pattern, method).Observe(time.Since(began).Seconds())
			end(strconv.Itoa(status), status >= http.StatusInternalServerError)
			slog.InfoContext(ctx, "request", "method", method, "route", pattern, "status", status, "duration_ms", float64(time.Since(began).Microseconds())/1000)
		}()
		next.ServeHTTP(out, r.WithContext(ctx))
	})
}

// routeLabel is a pattern without its method, which has a label of its own. A mux may name the path that it redirects to in place of a
// pattern, and that is a client's choice: so only so many have one.
func routeLabel(pattern string) string {
	if _, path, ok := strings.Cut(pattern, " "); ok {
		pattern = path
	}
	if pattern == "" || pattern == "/" || !known.admit(pattern) {
		return noRoute
	}
	return pattern
}

// maxRoutes bounds the routes of a process that have a label.
const maxRoutes = 256

// known are the routes that have one.
var known routeSet

type routeSet struct {
	mu     sync.Mutex // guards routes
	routes map[string]bool
}

// admit reports whether a route has a label: the first maxRoutes have.
func (s *routeSet) admit(route string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.routes == nil {
		s.routes = map[string]bool{}
	}
	if !s.routes[route] && len(s.routes) < maxRoutes {
		s.routes[route] = true
	}
	return s.routes[route]
}

// methodLabel is the method if it's a usual one: clients may send any word.
func methodLabel(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return "other"
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter. The last status counts: those before it were informational.
func (w *statusWriter) WriteHeader(status int) {
	if w.status < http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status < http.StatusOK {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ended is the status of an answer that is over. net/http answers 200 for a handler that said nothing.
func (w *statusWriter) ended() int {
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}
