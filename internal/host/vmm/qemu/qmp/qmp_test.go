package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// monitor is QEMU's end of a conversation, played by the test.
type monitor struct {
	t     *testing.T
	conn  *net.UnixConn
	lines *bufio.Scanner
}

const hello = `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}}, "capabilities": ["oob"]}}`

// pair returns both ends of a socket.
func pair(t *testing.T) (*net.UnixConn, *monitor) {
	t.Helper()
	addr := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"}
	l, err := net.ListenUnix("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.DialUnix("unix", nil, addr)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c, &monitor{t: t, conn: s, lines: bufio.NewScanner(s)}
}

func (m *monitor) say(format string, args ...any) { fmt.Fprintf(m.conn, format+"\r\n", args...) }

// hear returns the next command.
func (m *monitor) hear() (command string, id uint64) {
	var r request
	if !m.lines.Scan() {
		return "", 0
	}
	if err := json.Unmarshal(m.lines.Bytes(), &r); err != nil {
		m.t.Errorf("the client wrote %q: %v", m.lines.Bytes(), err)
	}
	return r.Execute, r.ID
}

// open opens a conversation whose negotiation goes well.
func open(t *testing.T, onEvent func(Event)) (*Client, *monitor) {
	t.Helper()
	conn, m := pair(t)
	go func() {
		m.say(hello)
		_, id := m.hear()
		m.say(`{"return": {}, "id": %d}`, id)
	}()
	c, err := Open(t.Context(), conn, onEvent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, m
}

func TestAnswersFindTheirCommandsInAnyOrder(t *testing.T) {
	events := make(chan Event, 4)
	c, m := open(t, func(e Event) { events <- e })
	type result struct{ Status string }
	first, second := make(chan result, 1), make(chan result, 1)
	ask := func(command string, to chan<- result) {
		var r result
		if err := c.Run(t.Context(), command, nil, &r); err != nil {
			t.Error(err)
		}
		to <- r
	}
	go ask("one", first)
	_, id1 := m.hear()
	go ask("two", second)
	_, id2 := m.hear()
	m.say(`{"event": "STOP", "data": {"a": 1}}`)
	m.say(`{"return": {"status": "second"}, "id": %d}`, id2)
	m.say(`{"return": {"status": "nobody"}, "id": 99}`)
	m.say(`{"something": "newer"}`)
	m.say(`{"return": {"status": "first"}, "id": %d}`, id1)
	if a, b := <-first, <-second; a.Status != "first" || b.Status != "second" {
		t.Errorf("got %v and %v", a, b)
	}
	if e := <-events; e.Name != "STOP" || string(e.Data) != `{"a": 1}` {
		t.Errorf("event %s %s", e.Name, e.Data)
	}
}

func TestARefusalIsAnError(t *testing.T) {
	c, m := open(t, nil)
	go func() {
		_, id := m.hear()
		m.say(`{"error": {"class": "GenericError", "desc": "no such thing"}, "id": %d}`, id)
	}()
	err := c.Run(t.Context(), "stop", nil, nil)
	var e *Error
	if !errors.As(err, &e) || e.Class != "GenericError" || !strings.Contains(err.Error(), "stop: no such thing") {
		t.Errorf("Run = %v", err)
	}
}

func TestACommandEndsWithItsContext(t *testing.T) {
	c, m := open(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := c.Run(ctx, "stop", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Run = %v, want the deadline", err)
	}
	_, late := m.hear()
	go func() {
		_, id := m.hear()
		m.say(`{"return": {}, "id": %d}`, late)
		m.say(`{"return": {}, "id": %d}`, id)
	}()
	if err := c.Run(t.Context(), "cont", nil, nil); err != nil {
		t.Errorf("Run after a late answer: %v", err)
	}
}

func TestCommandsWithoutAnswersAreBounded(t *testing.T) {
	c, _ := open(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range MaxPending {
		if err := c.Run(ctx, "stop", nil, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("Run = %v", err)
		}
	}
	if err := c.Run(t.Context(), "stop", nil, nil); !errors.Is(err, ErrBusy) {
		t.Errorf("Run = %v, want ErrBusy", err)
	}
}

// A command that wasn't sent before its deadline says so.
func TestADeadlineThatHasPassed(t *testing.T) {
	c, _ := open(t, nil)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if err := c.Run(ctx, "stop", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run = %v, want that the deadline has passed", err)
	}
}

func TestTheEndOfQEMUEndsCommands(t *testing.T) {
	c, m := open(t, nil)
	go func() {
		m.hear()
		m.conn.Close()
	}()
	if err := c.Run(t.Context(), "stop", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Run = %v, want ErrClosed", err)
	}
	if err := c.Run(t.Context(), "stop", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("second Run = %v, want ErrClosed", err)
	}
}

func TestABrokenPeerEndsTheConversation(t *testing.T) {
	for name, said := range map[string]string{
		"no JSON":       "hello",
		"endless line":  strings.Repeat("x", MaxLine+10),
		"refusal of us": `{"error": {"class": "GenericError", "desc": "JSON parse error"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			c, m := open(t, nil)
			go m.say("%s", said)
			if err := c.Run(t.Context(), "stop", nil, nil); !errors.Is(err, ErrClosed) {
				t.Errorf("Run = %v, want ErrClosed", err)
			}
		})
	}
}

func TestOpenObeysItsContext(t *testing.T) {
	conn, _ := pair(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if c, err := Open(ctx, conn, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open = %v, %v, want the deadline", c, err)
	}
}

func TestAFileTravelsWithItsCommand(t *testing.T) {
	c, m := open(t, nil)
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	go func() {
		b, oob := make([]byte, 4096), make([]byte, 64)
		n, oobn, _, _, err := m.conn.ReadMsgUnix(b, oob)
		var r request
		if json.Unmarshal(b[:n], &r) != nil || err != nil || oobn == 0 {
			t.Errorf("got %q with %d bytes of rights, %v", b[:n], oobn, err)
		}
		m.say(`{"return": {"fdset-id": 3}, "id": %d}`, r.ID)
	}()
	var set struct {
		ID int `json:"fdset-id"`
	}
	if err := c.RunWithFile(t.Context(), "add-fd", nil, &set, f); err != nil || set.ID != 3 {
		t.Errorf("RunWithFile = %v, %v", set, err)
	}
}

// FuzzParse feeds what a taken-over QEMU might say.
func FuzzParse(f *testing.F) {
	for _, s := range []string{hello, `{"return": {}, "id": 1}`, `{"event": "STOP"}`, `{"error": {"class": "a", "desc": "b"}, "id": 2}`, `[]`, `{"id": -1}`, "null"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parse(line)
		if err == nil && m.kind == answered {
			var v struct{ Status string }
			_ = m.decode(&v)
		}
	})
}
