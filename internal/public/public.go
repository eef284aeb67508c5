// Package public serves HTTP to clients. It's what the listeners of the API and the edge have in common: how many connections there are at once,
// how large a header may be, and how long a client may take. What an answer is it leaves to the handler. The invariant: no client holds a
// connection longer than the named times without bringing or taking what it's expected to.
package public

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"github.com/space-platform/space/internal/peer"
)

// Times are how long a client may take.
type Times struct {
	Header time.Duration // over a request's header, and over saying anything on a new connection; it's closed then
	Idle   time.Duration // for which a connection is kept without a request
	Rest   time.Duration // for which a client that was answered before the end of its body may go on sending, so that it gets to read the answer
}

// Usual is what a client may take from a role. A connection is kept idle for longer than clients keep theirs (Go's 90 s), so that they rarely
// find one closed. Only tests have less patience.
func Usual() Times {
	return Times{Header: 10 * time.Second, Idle: 2 * time.Minute, Rest: 5 * time.Second}
}

// Server is a listener's limits. All are required.
type Server struct {
	Handler       http.Handler
	Times         Times
	MaxConns      int           // at once; more wait in the kernel's queue
	MaxHeader     int           // bytes of a request's line and header; net/http takes up to 4 KiB more, and answers 431 beyond
	AnswerTimeout time.Duration // from a request's header to the end of its answer; the handler sets another for what takes longer
}

// Serve serves clients on l until ctx ends, then lets open requests finish for a moment; their contexts end at once.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	t := s.Times
	if s.Handler == nil || s.MaxConns <= 0 || s.MaxHeader <= 0 || s.AnswerTimeout <= 0 || t.Header <= 0 || t.Idle <= 0 || t.Rest <= 0 {
		return errors.New("serve clients: a limit isn't set")
	}
	return peer.Drain(ctx, &http.Server{
		Handler: limitRest(s.Handler, t.Rest), ReadHeaderTimeout: t.Header, IdleTimeout: t.Idle, WriteTimeout: s.AnswerTimeout, MaxHeaderBytes: s.MaxHeader,
		DisableGeneralOptionsHandler: true,
	}, netutil.LimitListener(l, s.MaxConns))
}
