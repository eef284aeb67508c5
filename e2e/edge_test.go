//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// screen is a terminal's WebSocket, and what it has shown.
type screen struct {
	*websocket.Conn
	ctx   context.Context
	shown bytes.Buffer
}

// terminal opens the WebSocket of a session.
func terminal(t *testing.T, s client.SessionCreated) *screen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callDeadline)
	t.Cleanup(cancel)
	at := strings.TrimSuffix(s.Attachment.Url, "/attach") + "/ws"
	c, _, err := websocket.Dial(ctx, at, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + s.Attachment.Token}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.CloseNow() })
	return &screen{Conn: c, ctx: ctx}
}

// until reads until what was shown, or a control message, has a text; then what was shown begins anew.
func (s *screen) until(t *testing.T, text string) string {
	t.Helper()
	for {
		_, b, err := s.Read(s.ctx)
		if err != nil {
			t.Fatalf("%q isn't shown, but %q: %v", text, s.shown.String(), err)
		}
		s.shown.Write(b[1:])
		if all := s.shown.String(); strings.Contains(all, text) {
			s.shown.Reset()
			return all
		}
	}
}

func (s *screen) send(t *testing.T, channel byte, text string) {
	t.Helper()
	if err := s.Write(s.ctx, websocket.MessageBinary, append([]byte{channel}, text...)); err != nil {
		t.Fatal(err)
	}
}

// TestTerminal has a shell in a terminal: it echoes, knows its size, takes Ctrl-C and a signal, and ends with its code.
func TestTerminal(t *testing.T) {
	box := create(t, "mini")
	s := terminal(t, session(t, box, client.SessionCreate{Argv: argv("sh"), Tty: &api.TerminalSize{Rows: 24, Cols: 80}}))
	s.until(t, `"type":"started"`)
	s.send(t, 0, "stty size\n")
	s.until(t, "24 80")
	s.send(t, 3, `{"type":"resize","rows":40,"cols":100}`)
	s.send(t, 0, "stty size\n")
	s.until(t, "40 100")
	s.send(t, 0, "sh -c 'echo wait; exec sleep 1000'\n") // a process of its own says it, so that the interrupt doesn't come before there is one
	s.until(t, "wait\r\n")
	s.send(t, 0, "\x03")
	s.send(t, 0, "echo $((40+2))\n")
	s.until(t, "42")
	s.send(t, 3, `{"type":"dance"}`)
	s.until(t, `"code":"invalid_request"`)
	s.send(t, 0, "exit 7\n")
	s.until(t, `"code":7`)
}

// TestRangesAndSignedURLs reads and writes a file by URLs that need no token.
func TestRangesAndSignedURLs(t *testing.T) {
	box := create(t, "mini")
	sign := func(operation string) string {
		u, err := platform.client.SignFileURL(t.Context(), box.Id, client.FileURLCreate{Path: "/tmp/a b", Operation: api.FileURLCreateOperation(operation)})
		if err != nil {
			t.Fatal(err)
		}
		return u.Url
	}
	do := func(method, at, body, span string) (int, string, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if span != "" {
			req.Header.Set("Range", span)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b), resp.Header
	}
	read, write := sign("read"), sign("write")
	if status, body, _ := do("PUT", write, "0123456789", ""); status != 201 {
		t.Fatalf("write: %d %s", status, body)
	}
	if status, body, _ := do("PUT", write, "abcdefghij", ""); status != 200 {
		t.Errorf("write again: %d %s", status, body)
	}
	for span, want := range map[string]string{"": "200 abcdefghij", "bytes=2-4": "206 cde", "bytes=8-": "206 ij", "bytes=-3": "206 hij", "bytes=99-": "416"} {
		status, body, _ := do("GET", read, "", span)
		if status == http.StatusRequestedRangeNotSatisfiable {
			body = ""
		}
		if got := strings.TrimSpace(fmt.Sprint(status, " ", body)); got != want {
			t.Errorf("%s: %s, want %s", span, got, want)
		}
	}
	if status, body, _ := do("PUT", read, "x", ""); status != 401 {
		t.Errorf("a URL that reads writes: %d %s", status, body)
	}
	u, err := url.Parse(read)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("path", "/etc/shadow")
	u.RawQuery = q.Encode()
	if status, body, _ := do("GET", u.String(), "", ""); status != 401 {
		t.Errorf("it reads another file: %d %s", status, body)
	}
}

// watchTime is how long after a write's answer its event may come: under emulation the guest has to find the time.
func watchTime(t *testing.T) time.Duration {
	t.Helper()
	node, err := platform.client.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if node.Acceleration == "kvm" {
		return time.Second
	}
	return 5 * time.Second
}

// TestWatchTellsOfEachChange makes files while somebody watches; each event comes in time after its write was answered, and none is missing.
func TestWatchTellsOfEachChange(t *testing.T) {
	limit, box := watchTime(t), create(t, "mini")
	plane, err := platform.client.Plane(t.Context(), box.Id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plane.MakeDirectory(t.Context(), "/tmp/w/deep"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type seen struct {
		client.FileEvent
		at time.Time
	}
	events := make(chan seen, 100)
	go func() {
		defer close(events)
		for e, err := range plane.WatchFiles(ctx, "/tmp/w", true) {
			if err != nil {
				return
			}
			events <- seen{e, time.Now()}
		}
	}()
	if e, ok := <-events; !ok || e.Kind != "ready" {
		t.Fatalf("the watch begins with %v", e)
	}
	answered := map[string]time.Time{} // and not yet told
	for _, name := range []string{"/tmp/w/a", "/tmp/w/deep/b", "/tmp/w/c"} {
		if _, err := plane.WriteFile(t.Context(), name, strings.NewReader(name)); err != nil {
			t.Fatal(err)
		}
		answered[name] = time.Now()
	}
	for late := time.After(callDeadline); len(answered) > 0; {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatalf("the watch broke off; it owes %v", answered)
			}
			if at, waits := answered[e.Path]; waits && e.at.Sub(at) > limit {
				t.Errorf("%s is told %s after the answer, want at most %s", e.Path, e.at.Sub(at), limit)
			}
			delete(answered, e.Path)
		case <-late:
			t.Fatalf("the watch owes %v", answered)
		}
	}
}
