package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/telemetry"
)

// requestID is the id under which the log knows a request; empty outside of one.
func requestID(ctx context.Context) string { return telemetry.Request(ctx) }

// named gives each request an id, answers for a panic, and logs what was asked and how it ended: never a body, a query or a header.
func named(next http.Handler, pattern func(*http.Request) string) http.Handler {
	newID := func() string { return space.NewID(space.PrefixRequest) }
	return telemetry.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started, id := time.Now(), requestID(r.Context())
		out := &answer{ResponseWriter: w}
		out.Header().Set("X-Content-Type-Options", "nosniff")
		out.Header().Set("Cache-Control", "no-store")
		defer func() {
			if p := recover(); p != nil {
				survive(out, r, p)
			}
			slog.Info("request", "request", id, "method", r.Method, "route", pattern(r), "status", out.status,
				"duration_ms", float64(time.Since(started).Microseconds())/1000)
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
