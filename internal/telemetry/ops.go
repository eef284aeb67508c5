package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
)

// Limits of the operator's listener. Every user of the machine reaches it, so it's small.
const (
	opsTimeout     = 5 * time.Second // for a request's header, for its answer, and of silence
	maxOpsConns    = 16
	maxOpsHeader   = 4 << 10 // bytes
	readinessLimit = 2 * time.Second
)

// Ops answers an operator's programs: /metrics, /healthz, which says that the process lives, and /readyz, which says that it can do its
// work. It tells nothing about tenants.
type Ops struct {
	ready atomic.Pointer[func(context.Context) error]
}

// Ready says that the process serves from now on. check, which may be nil, says each time whether what it needs is there; its errors stay here.
func (o *Ops) Ready(check func(context.Context) error) {
	if check == nil {
		check = func(context.Context) error { return nil }
	}
	o.ready.Store(&check)
}

// Handler serves the three paths.
func (o *Ops) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metricsHandler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", o.readyz)
	return mux
}

func (o *Ops) readyz(w http.ResponseWriter, r *http.Request) {
	check := o.ready.Load()
	if check == nil {
		answer(w, http.StatusServiceUnavailable, "starting")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readinessLimit)
	defer cancel()
	if (*check)(ctx) != nil {
		answer(w, http.StatusServiceUnavailable, "waiting for another part of the platform")
		return
	}
	answer(w, http.StatusOK, "ok")
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	io.WriteString(w, text+"\n")
}

// Serve serves h on l until ctx ends.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: opsTimeout, ReadTimeout: opsTimeout, WriteTimeout: 2 * opsTimeout, IdleTimeout: opsTimeout, MaxHeaderBytes: maxOpsHeader,
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(netutil.LimitListener(l, maxOpsConns)); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
