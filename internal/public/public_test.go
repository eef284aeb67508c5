package public

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

const waitLimit = 10 * time.Second

// serve serves h with at most conns connections.
func serve(t *testing.T, conns int, h http.HandlerFunc) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Server{Handler: h, Times: Usual(), MaxConns: conns, MaxHeader: 8 << 10, AnswerTimeout: waitLimit}.Serve(ctx, l)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(waitLimit))
	return c
}

// TestConnectionsAreBounded: one more waits until another one is closed, and is served then.
func TestConnectionsAreBounded(t *testing.T) {
	const most = 3
	entered, leave := make(chan string, most+1), make(chan struct{})
	address := serve(t, most, func(_ http.ResponseWriter, r *http.Request) {
		entered <- r.URL.Path
		<-leave
	})
	ask := func(path string) *bufio.Reader {
		c := dial(t, address)
		io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		return bufio.NewReader(c)
	}
	for range most {
		ask("/first")
	}
	for range most {
		if got := <-entered; got != "/first" {
			t.Fatal(got)
		}
	}
	over := ask("/over")
	select {
	case got := <-entered:
		t.Fatalf("%s came in over the limit", got)
	case leave <- struct{}{}: // one leaves; only now is there room
	}
	if got := <-entered; got != "/over" {
		t.Fatal(got)
	}
	close(leave)
	if resp, err := http.ReadResponse(over, nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", resp, err)
	}
}

// TestABodyThatCameKeepsItsConnection: only who was answered before the end of the body loses it.
func TestABodyThatCameKeepsItsConnection(t *testing.T) {
	address := serve(t, 1, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/read" {
			io.Copy(io.Discard, r.Body)
		}
		io.WriteString(w, "ok")
	})
	for path, closed := range map[string]bool{"/read": false, "/unread": true} {
		c := dial(t, address)
		io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.Close != closed {
			t.Errorf("%s: %+v, %v", path, resp, err)
		}
		c.Close()
	}
}

// TestNoLimitNoService: absence isn't "unlimited".
func TestNoLimitNoService(t *testing.T) {
	for name, forget := range map[string]func(*Server){
		"handler": func(s *Server) { s.Handler = nil }, "connections": func(s *Server) { s.MaxConns = 0 }, "header": func(s *Server) { s.MaxHeader = 0 },
		"answer": func(s *Server) { s.AnswerTimeout = 0 }, "time for a header": func(s *Server) { s.Times.Header = 0 }, "idle time": func(s *Server) { s.Times.Idle = 0 },
		"time for the rest": func(s *Server) { s.Times.Rest = 0 },
	} {
		s := Server{Handler: http.NotFoundHandler(), Times: Usual(), MaxConns: 1, MaxHeader: 1, AnswerTimeout: 1}
		forget(&s)
		if s.Serve(t.Context(), nil) == nil {
			t.Errorf("without a limit of its %s it serves", name)
		}
	}
}
