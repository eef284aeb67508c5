package edge

import (
	"net/http"
	"slices"
	"strings"
)

// What scripts of an allowed origin may send and read, beside what every browser allows.
const (
	scriptSends = "Authorization, Content-Type, Idempotency-Key, If-Modified-Since, If-None-Match, If-Range, Last-Event-ID, Range"
	scriptReads = "Content-Disposition, Content-Range, ETag, Retry-After, X-Request-Id"
	scriptWaits = "600" // seconds for which a browser remembers it
)

// allowed reports whether pages of a request's origin may use the data plane. A request without one isn't a page's. Nothing here is authenticated
// by what a browser adds by itself, so this only keeps pages from trying tokens.
func (e *Edge) allowed(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	return origin == "" || slices.Contains(e.origins, origin) || slices.Contains(e.origins, "*")
}

// allowOrigin tells a browser that the page of an allowed origin may read the answer.
func (e *Edge) allowOrigin(h http.Header, r *http.Request) {
	if len(e.origins) == 0 {
		return
	}
	h.Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); origin != "" && e.allowed(r) {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", scriptReads)
	}
}

// preflight answers a browser's question before the request of an allowed origin.
func (e *Edge) preflight(w http.ResponseWriter, r *http.Request, methods []string) bool {
	if r.Method != http.MethodOptions || r.Header.Get("Origin") == "" || r.Header.Get("Access-Control-Request-Method") == "" || !e.allowed(r) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
	h.Set("Access-Control-Allow-Headers", scriptSends)
	h.Set("Access-Control-Max-Age", scriptWaits)
	w.WriteHeader(http.StatusNoContent)
	return true
}
