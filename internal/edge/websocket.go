package edge

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	space "github.com/space-platform/space"
)

// subprotocol is what is accepted of a client that offers subprotocols. One that brings its token as one must offer this as well: no browser
// takes an answer that accepts none, and a token is never said back.
const subprotocol = "space.session.v1"

func (e *Edge) attachWebSocket(w *answer, r *request) error {
	var from []string
	if s, there := r.query["from"]; there {
		from = []string{s}
	}
	c, err := readCursor("from", from)
	if err != nil {
		return err
	}
	if err := e.checkHandshake(r); err != nil {
		return err
	}
	up, err := e.admit(r, c)
	if err != nil {
		return fieldFrom(err)
	}
	defer up.close()
	e.sockets.Add(1)
	defer e.sockets.Done()
	w.begun = true
	w.flow.release()
	taken := &takenOver{ResponseWriter: w}
	conn, err := websocket.Accept(taken, r.Request, &websocket.AcceptOptions{Subprotocols: []string{subprotocol}, InsecureSkipVerify: true}) // checkHandshake has looked
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxFrame)
	return e.converse(r, conn, taken.conn, up)
}

// takenOver keeps the connection that a WebSocket takes over from the HTTP server.
type takenOver struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack implements http.Hijacker.
func (t *takenOver) Hijack() (_ net.Conn, in *bufio.ReadWriter, err error) {
	t.conn, in, err = http.NewResponseController(t.ResponseWriter).Hijack()
	return t.conn, in, err
}

// checkHandshake refuses what isn't a WebSocket's beginning, before the session is started for it.
func (e *Edge) checkHandshake(r *request) error {
	switch {
	case !e.allowed(r.Request):
		return space.Errorf(space.CodeForbidden, "pages of this origin may not use the data plane; the operator can allow it (edge_origins)")
	case !r.ProtoAtLeast(1, 1) || r.ProtoMajor != 1:
		return space.FieldErrorf("Upgrade", "a WebSocket begins with HTTP/1.1")
	case !hasToken(r.Header, "Connection", "upgrade") || !hasToken(r.Header, "Upgrade", "websocket"):
		return space.FieldErrorf("Upgrade", "is missing: this address is for WebSockets; GET …/attach streams events")
	case r.Header.Get("Sec-WebSocket-Version") != "13" || r.Header.Get("Sec-WebSocket-Key") == "":
		return space.FieldErrorf("Sec-WebSocket-Version", "want version 13 with a Sec-WebSocket-Key")
	}
	return nil
}

func hasToken(h http.Header, name, token string) bool {
	for _, value := range h.Values(name) {
		for t := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// fieldFrom names the parameter of a WebSocket where an attach has a header.
func fieldFrom(err error) error {
	var e *space.Error
	if errors.As(err, &e) && e.Field == lastEventID {
		return &space.Error{Code: e.Code, Field: "from", Message: e.Message, Err: e.Err}
	}
	return err
}

// converse talks with a client until the session's last event, or until the client leaves.
func (e *Edge) converse(r *request, conn *websocket.Conn, wire net.Conn, up *upstream) error {
	ctx, cancel := context.WithCancel(r.Context())
	s := &socket{conn: conn, timing: e.timing}
	defer context.AfterFunc(ctx, func() {
		if ended(ctx) != nil {
			_ = wire.SetDeadline(time.Now().Add(e.timing.leave)) // fails if the connection is gone; the library's farewell waits for longer
		}
	})()
	in := newInput(e, s, up.route, r.session)
	var parts sync.WaitGroup
	parts.Go(func() { in.send(ctx) })
	parts.Go(func() { s.ping(ctx, cancel) })
	parts.Go(func() { defer cancel(); s.read(ctx, in) })
	inner := *r
	inner.Request = r.WithContext(ctx)
	err := e.follow(&inner, s, up)
	s.goodbye()
	cancel()
	conn.CloseNow()
	parts.Wait()
	return err
}
