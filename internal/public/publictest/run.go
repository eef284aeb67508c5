package publictest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/public"
)

// Times are what a test gives a client: as little as a busy machine can keep, since somebody waits for each of them.
func Times() public.Times {
	return public.Times{Header: 3 * time.Second, Idle: public.Usual().Idle, Rest: 2 * time.Second}
}

// BodyTime is the same for a body.
const BodyTime = 4 * time.Second

// Run does all of it at once, so it takes as long as the longest of the server's times. made counts what the target's operation has made: nothing
// of it may be.
func Run(t *testing.T, to Target, made func() int) {
	before := made()
	var rows sync.WaitGroup
	for _, r := range slices.Concat(to.slow(), to.broken(), to.lying(), to.headers(), to.lines()) {
		rows.Go(func() {
			if err := to.do(r); err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
		})
	}
	rows.Wait()
	if n := made() - before; n != 0 {
		t.Errorf("%d were made of what was bad", n)
	}
	to.alive(t)
}

// do plays one row.
func (to Target) do(r row) error {
	began := time.Now()
	c, err := dial(to.URL)
	if err != nil {
		return err
	}
	defer c.stop()
	io.WriteString(c, r.send) // the server may have closed it already
	if r.then != nil {
		r.then(c)
	}
	if c.gone {
		return nil
	}
	c.SetReadDeadline(began.Add(r.in + slack))
	in := bufio.NewReader(c)
	got, err := first(in, r.want)
	took := time.Since(began).Round(time.Millisecond)
	switch {
	case err != nil:
		return fmt.Errorf("after %s: %w", took, err)
	case got != r.want:
		return fmt.Errorf("after %s the answer is %v, want %v", took, got, r.want)
	case got.code == space.CodeTimeout && took < r.in:
		return fmt.Errorf("after %s the client is told that its %s are over", took, r.in)
	case r.in == 0:
		return nil
	}
	rest, err := io.ReadAll(in)
	if isTimeout(err) {
		return fmt.Errorf("the connection is open after %s", time.Since(began).Round(time.Millisecond))
	}
	if len(rest) > 0 {
		return fmt.Errorf("after the answer comes %.200q", rest)
	}
	return nil
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// first reads an answer, as far as what is wanted tells of it. A connection that is closed without one answers none.
func first(in *bufio.Reader, wanted want) (want, error) {
	resp, err := http.ReadResponse(in, nil)
	switch {
	case isTimeout(err):
		return none, errors.New("there's neither an answer nor a closed connection")
	case err != nil:
		return none, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	switch {
	case wanted == some:
		return some, nil
	case wanted.code == "": // net/http closes before a client that sends too much has read the whole text
		return plain(resp.StatusCode), nil
	case err != nil:
		return none, fmt.Errorf("the answer breaks off: %w", err)
	}
	var p struct {
		Code, Field, Title string
		Status             int
		RequestID          string `json:"request_id"`
	}
	if err := json.Unmarshal(b, &p); err != nil || resp.Header.Get("Content-Type") != "application/problem+json" {
		return none, fmt.Errorf("no problem document: %s %v %.200q", resp.Status, resp.Header, b)
	}
	if p.Status != resp.StatusCode || p.Title == "" || p.RequestID == "" || p.RequestID != resp.Header.Get("X-Request-Id") {
		return none, fmt.Errorf("a problem document of status %d: %s", resp.StatusCode, b)
	}
	return want{resp.StatusCode, space.Code(p.Code), p.Field}, nil
}

// alive asks whether the server goes on.
func (to Target) alive(t *testing.T) {
	t.Helper()
	r := row{send: get + "Connection: close\r\n\r\n", want: plain(http.StatusOK), in: to.Times.Rest}
	if err := to.do(r); err != nil {
		t.Errorf("after all of it: %v", err)
	}
}

// conn is a client's connection. What goes on sending on it ends with it.
type conn struct {
	*net.TCPConn
	gone    bool // the client has left, and hears nothing
	ended   chan struct{}
	sending sync.WaitGroup
}

func dial(url string) (*conn, error) {
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), slack)
	if err != nil {
		return nil, err
	}
	return &conn{TCPConn: c.(*net.TCPConn), ended: make(chan struct{})}, nil
}

func (c *conn) stop() {
	close(c.ended)
	c.Close()
	c.sending.Wait()
}

func (c *conn) closeWrite() { c.CloseWrite() }

func (c *conn) close() {
	c.gone = true
	c.Close()
}

func (c *conn) reset() {
	c.SetLinger(0)
	c.close()
}

// trickleEvery is shorter than any of the server's times.
const trickleEvery = 200 * time.Millisecond

// trickle sends a piece again and again, until the connection is closed.
func trickle(piece string) func(*conn) {
	return func(c *conn) {
		c.sending.Go(func() {
			tick := time.NewTicker(trickleEvery)
			defer tick.Stop()
			for {
				select {
				case <-c.ended:
					return
				case <-tick.C:
				}
				if _, err := io.WriteString(c, piece); err != nil {
					return
				}
			}
		})
	}
}

// flood sends a piece as fast as the server takes it, until the connection is closed.
func flood(piece string) func(*conn) {
	return func(c *conn) {
		c.sending.Go(func() {
			for {
				if _, err := io.WriteString(c, piece); err != nil {
					return
				}
			}
		})
	}
}
