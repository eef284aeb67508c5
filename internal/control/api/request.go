package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/telemetry"
)

// requestID is the id under which the log knows a request; empty outside of one.
func requestID(ctx context.Context) string { return telemetry.Request(ctx) }

// named gives each request an id, and answers for a panic. What was asked and how it ended is logged: never a body, a query or a header.
func named(next http.Handler, pattern func(*http.Request) string) http.Handler {
	newID := func() string { return space.NewID(space.PrefixRequest) }
	return telemetry.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &answer{ResponseWriter: w}
		out.Header().Set("X-Content-Type-Options", "nosniff")
		out.Header().Set("Cache-Control", "no-store")
		defer func() {
			if p := recover(); p != nil {
				survive(out, r, p)
			}
		}()
		next.ServeHTTP(out, r)
	}), newID, pattern)
}

// survive answers a request whose handler panicked, if it hasn't answered yet.
func survive(out *answer, r *http.Request, p any) {
	slog.Error("a handler panicked", "request", requestID(r.Context()), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if out.status == 0 {
		fail(out, r, fmt.Errorf("panic: %v", p))
	}
}

// answer remembers the status.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
