//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// TestStoppedDaemonsSayGoodbye asks each daemon on a stream's way to end, in the middle of a session: the last thing a client hears is why, and
// with the last id that it got it hears the rest.
func TestStoppedDaemonsSayGoodbye(t *testing.T) {
	s := create(t, "mini")
	for _, r := range []instance.Role{instance.Edge, instance.NodeAPI, instance.Manager, instance.Host} {
		t.Run(string(r), func(t *testing.T) {
			open := session(t, s, client.SessionCreate{Shell: ptr(counting)})
			first := listen(t, open.Attachment.Url, open.Attachment.Token, "", func(e sse) bool {
				if e.name == "stdout" && e.count == 2 { // `started` came before
					end(t, r, syscall.SIGTERM)
				}
				return true
			})
			first.wantGoodbye(t)
			second := resume(t, open.Attachment.Url, open.Attachment.Token, first.id, func(sse) bool { return true })
			if got := first.stdout(t) + second.stdout(t); got != counted() || second.events[len(second.events)-1].name != "exit" {
				t.Errorf("both streams together have %d bytes, the second from %q on, want %d", len(got), first.id, len(counted()))
			}
		})
	}
}

// TestFeedOutlivesTheControlPlane does the same with a feed of events, none of which comes twice or is missing. A killed control plane says nothing.
func TestFeedOutlivesTheControlPlane(t *testing.T) {
	for _, with := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(unix.SignalName(with), func(t *testing.T) {
			s := create(t, "mini")
			feed := platform.url + "/v1/events?sandbox=" + s.Id
			first := listen(t, feed, platform.key, "0", func(e sse) bool {
				if e.name == "sandbox.running" {
					end(t, instance.API, with)
				}
				return true
			})
			if with == syscall.SIGTERM {
				first.wantGoodbye(t)
			} else if last := first.events[len(first.events)-1]; last.name != "sandbox.running" {
				t.Errorf("a killed control plane says %+v", last)
			}
			eventually(t, callDeadline, "the control plane is back", func() bool {
				_, err := platform.client.Health(t.Context())
				return err == nil
			})
			verb(t, s.Id, "stop")
			second := resume(t, feed, platform.key, first.id, func(e sse) bool { return e.name != "sandbox.stopped" })
			wantAllEvents(t, s, append(first.events, second.events...))
		})
	}
}

// wantAllEvents checks that what feeds told of a sandbox is what happened to it.
func wantAllEvents(t *testing.T, s client.Sandbox, told []sse) {
	t.Helper()
	var got, want []string
	for _, e := range told {
		if strings.HasPrefix(e.name, "sandbox.") {
			got = append(got, e.id+" "+e.name)
		}
	}
	for e, err := range platform.client.ListEvents(t.Context(), s.Id) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, e.Id+" "+string(e.Type))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the feeds told %q, and what happened is %q", got, want)
	}
}

// sse is one server-sent event.
type sse struct {
	name, id, data string
	count          int // of the events in its stream, itself included
}

// heard is what one connection brought.
type heard struct {
	events []sse
	id     string // the newest, which a client comes back with
	cut    error  // why it ended, unless in order
}

// listen reads one stream until it ends, or until look says that it's enough.
func listen(t *testing.T, url, token, lastID string, look func(sse) bool) heard {
	t.Helper()
	h, status := connect(t, url, token, lastID, look)
	if status != http.StatusOK {
		t.Fatalf("%s: status %d", url, status)
	}
	return h
}

// resume listens again as soon as there's somebody who answers.
func resume(t *testing.T, url, token, lastID string, look func(sse) bool) (h heard) {
	t.Helper()
	eventually(t, callDeadline, "the stream is taken up again", func() bool {
		var status int
		h, status = connect(t, url, token, lastID, look)
		return status == http.StatusOK
	})
	return h
}

// connect reads one stream. Nobody there is a status of 0.
func connect(t *testing.T, url, token, lastID string, look func(sse) bool) (h heard, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callDeadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+token)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return h, 0
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return h, res.StatusCode
	}
	h.id = lastID
	h.read(res.Body, look)
	return h, res.StatusCode
}

func (h *heard) read(body io.Reader, look func(sse) bool) {
	var e sse
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id, h.id = value, value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e.name == "" {
				e = sse{}
				continue
			}
			e.count = len(h.events) + 1
			h.events = append(h.events, e)
			if !look(e) {
				return
			}
			e = sse{}
		}
	}
	h.cut = lines.Err()
}

// wantGoodbye checks that the stream ended in order, with its reason.
func (h heard) wantGoodbye(t *testing.T) {
	t.Helper()
	if n := len(h.events); h.cut != nil || n == 0 || h.events[n-1].name != "ended" || h.events[n-1].data != `{"reason":"shutting_down"}` {
		t.Errorf("the stream ends with %+v, %v; want ended with shutting_down", h.events[max(0, n-1):], h.cut)
	}
}

func (h heard) stdout(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, e := range h.events {
		if e.name != "stdout" {
			continue
		}
		var piece struct{ Data []byte }
		if err := json.Unmarshal([]byte(e.data), &piece); err != nil {
			t.Fatal(err)
		}
		out.Write(piece.Data)
	}
	return out.String()
}
