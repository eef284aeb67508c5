package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

// terminal is a client at a WebSocket.
type terminal struct {
	*websocket.Conn
	t   *testing.T
	ctx context.Context
}

func (r *rig) dial(t *testing.T, query string, o *websocket.DialOptions) (*terminal, *http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.Cleanup(cancel)
	if o == nil {
		o = &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + r.token}}}
	}
	c, resp, err := websocket.Dial(ctx, r.url+r.sessionPath("/ws"+query), o)
	if err != nil {
		return nil, resp, err
	}
	t.Cleanup(func() { c.CloseNow() })
	return &terminal{c, t, ctx}, resp, nil
}

func (r *rig) terminal(t *testing.T, query string) *terminal {
	t.Helper()
	c, resp, err := r.dial(t, query, nil)
	if err != nil {
		t.Fatalf("%v %v", err, resp)
	}
	return c
}

// next reads a message: "1:text" for stdout, "2:text" for stderr, JSON for control. What isn't asked about is left out: how much input there is.
func (c *terminal) next() string {
	c.t.Helper()
	for {
		kind, b, err := c.Read(c.ctx)
		var closed websocket.CloseError
		switch {
		case errors.As(err, &closed):
			return fmt.Sprintf("closed %d", closed.Code)
		case err != nil:
			return "broken"
		case kind != websocket.MessageBinary || len(b) == 0:
			c.t.Fatalf("a message %v %q", kind, b)
		case b[0] != channelControl:
			return fmt.Sprintf("%d:%s", b[0], b[1:])
		case !strings.Contains(string(b), `"type":"stdin"`):
			return string(b[1:])
		}
	}
}

func (c *terminal) rest() (out []string) {
	c.t.Helper()
	for {
		m := c.next()
		out = append(out, m)
		if m == "broken" || strings.HasPrefix(m, "closed") {
			return out
		}
	}
}

func (c *terminal) send(channel byte, data string) {
	c.t.Helper()
	if err := c.Write(c.ctx, websocket.MessageBinary, append([]byte{channel}, data...)); err != nil {
		c.t.Fatal(err)
	}
}

// keyboard is the session's side of a terminal: it hands out the input that arrives.
type keyboard struct {
	mu     sync.Mutex
	typed  string
	closed bool
	told   []string
	rung   chan struct{}
}

func newKeyboard() *keyboard { return &keyboard{rung: make(chan struct{}, 1000)} }

func (k *keyboard) call(_ context.Context, a *sandboxv1.Action, s *nodeCall) error {
	defer func() { k.rung <- struct{}{} }()
	switch x := a.GetAction().(type) {
	case *sandboxv1.Action_Signal:
		k.tell("signal %d", x.Signal.GetSignal())
		return nil
	case *sandboxv1.Action_Resize:
		k.tell("%dx%d", x.Resize.GetRows(), x.Resize.GetCols())
		return nil
	case *sandboxv1.Action_Stdin:
		return k.stdin(x.Stdin, s)
	}
	return space.Errorf(space.CodeInternal, "%v", a)
}

func (k *keyboard) tell(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told = append(k.told, fmt.Sprintf(format, args...))
}

func (k *keyboard) stdin(a *sandboxv1.Stdin, s *nodeCall) error {
	for {
		m, err := s.Receive()
		if err != nil {
			return err
		}
		k.mu.Lock()
		if k.closed && len(m.GetData()) > 0 {
			k.mu.Unlock()
			return space.Errorf(space.CodeConflict, "the session's stdin was closed")
		}
		k.typed += string(m.GetData())
		k.closed = k.closed || m.GetEnd() && a.GetClose()
		n := uint64(len(k.typed))
		k.mu.Unlock()
		k.rung <- struct{}{}
		if m.GetEnd() {
			return s.Send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Received{Received: n}})
		}
	}
}

// until waits for a condition on the keyboard.
func (k *keyboard) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	late := time.After(waitLimit)
	for {
		k.mu.Lock()
		ok := holds()
		k.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-k.rung:
		case <-late:
			t.Fatalf("no sign of: %s; %+v", what, k)
		}
	}
}

func TestTerminal(t *testing.T) {
	r := newRig(t)
	k := newKeyboard()
	r.call = k.call
	typed := make(chan struct{})
	r.attach = func(_ context.Context, _ *sessionv1.AttachRequest, send func(*sessionv1.AttachResponse) error) error {
		send(started())
		send(output(stdout, 0, "$ "))
		<-typed
		send(output(stderr, 2, "oops"))
		send(gap(6, 10))
		return send(exit(&sessionv1.Exit{Code: 3, Offset: 10, TimedOut: true}))
	}
	c := r.terminal(t, "")
	if got := []string{c.next(), c.next()}; !cmp.Equal(got, []string{`{"at":"1970-01-01T00:00:00Z","type":"started"}`, "1:$ "}) {
		t.Errorf("%q", got)
	}
	c.send(channelStdin, "l")
	c.send(channelStdin, "s\n\x00\xff")
	c.send(channelControl, `{"type":"resize","rows":24,"cols":80}`)
	c.send(channelControl, `{"type":"signal","signal":"SIGWINCH"}`)
	c.send(channelControl, `{"type":"close_stdin"}`)
	k.until(t, "all that was typed", func() bool { return k.typed == "ls\n\x00\xff" && k.closed && len(k.told) == 2 })
	if !cmp.Equal(k.told, []string{"24x80", "signal 28"}) {
		t.Errorf("%q", k.told)
	}
	close(typed)
	want := []string{"2:oops", `{"from":6,"to":10,"type":"gap"}`, `{"code":3,"offset":10,"timed_out":true,"type":"exit"}`, "closed 1000"}
	if got := c.rest(); !cmp.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTerminalGoesOnWhereItWas(t *testing.T) {
	r := newRig(t)
	r.call = newKeyboard().call
	r.attach = sends(nil, output(stdout, 0, "hello"), exit(&sessionv1.Exit{Offset: 5, Signal: 9, SignalName: "SIGKILL"}))
	if got := r.terminal(t, "?from=2").rest(); !cmp.Equal(got, []string{"1:llo", `{"code":null,"offset":5,"signal":"SIGKILL","type":"exit"}`, "closed 1000"}) {
		t.Errorf("%q", got)
	}
	if a := r.attached[0]; a.GetFromOffset() != 2 || !a.GetResume() {
		t.Errorf("%v", a)
	}
	r.attach = sends(space.FieldErrorf("from_offset", "the log has 5 bytes"))
	_, resp, err := r.dial(t, "?from=9", nil)
	if err == nil {
		t.Fatal("it was accepted")
	}
	var p struct{ Code, Field string }
	if json.NewDecoder(resp.Body).Decode(&p); resp.StatusCode != 400 || p.Field != "from" {
		t.Errorf("%s %+v", resp.Status, p)
	}
}

func TestTerminalsAreRefusedAsProblems(t *testing.T) {
	r := newRig(t)
	r.attach = sends(nil, started(), exit(&sessionv1.Exit{}))
	upgrade := []string{"Connection", "keep-alive, Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="}
	with := func(more ...string) []string { return append(append([]string{}, upgrade...), more...) }
	for name, tt := range map[string]struct {
		query   string
		headers []string
		code    space.Code
		field   string
	}{
		"no upgrade":        {"", nil, space.CodeInvalid, "Upgrade"},
		"another upgrade":   {"", with("Upgrade", "h2c"), space.CodeInvalid, "Upgrade"},
		"another version":   {"", with("Sec-WebSocket-Version", "8"), space.CodeInvalid, "Sec-WebSocket-Version"},
		"no token":          {"", with("Authorization", ""), space.CodeUnauthenticated, ""},
		"a key":             {"", with("Authorization", "", "Sec-WebSocket-Protocol", "space.token.space_aaaa"), space.CodeUnauthenticated, ""},
		"a foreign page":    {"", with("Origin", "https://evil.example"), space.CodeForbidden, ""},
		"a page of nowhere": {"", with("Origin", "null"), space.CodeForbidden, ""},
		"nonsense":          {"?from=x", upgrade, space.CodeInvalid, "from"},
		"twice":             {"?from=1&from=2", upgrade, space.CodeInvalid, "from"},
		"token in the url":  {"?token=" + r.token, with("Authorization", ""), space.CodeUnauthenticated, ""},
	} {
		c := r.ask(t, "GET", r.sessionPath("/ws"+tt.query), nil, tt.headers...)
		t.Run(name, func(t *testing.T) { c.fails(t, tt.code, tt.field) })
	}
	if len(r.attached) != 0 {
		t.Errorf("%d sessions were attached to", len(r.attached))
	}
}

// TestBrowsersTerminal shows the token as a browser can.
func TestBrowsersTerminal(t *testing.T) {
	r := newRig(t)
	r.call = newKeyboard().call
	r.attach = sends(nil, started(), exit(&sessionv1.Exit{}))
	for _, token := range []string{r.token, r.box} {
		c, resp, err := r.dial(t, "", &websocket.DialOptions{
			Subprotocols: []string{subprotocol, subprotocolToken + token}, HTTPHeader: http.Header{"Origin": {"https://app.example"}},
		})
		if err != nil {
			t.Fatal(err, resp)
		}
		if c.Subprotocol() != subprotocol || strings.Contains(fmt.Sprint(resp.Header), token) {
			t.Errorf("%q %v", c.Subprotocol(), resp.Header)
		}
		if got := c.rest(); got[len(got)-1] != "closed 1000" {
			t.Errorf("%q", got)
		}
	}
}

func TestMistakesOfATerminal(t *testing.T) {
	r := newRig(t)
	k := newKeyboard()
	r.call = k.call
	r.attach = hangs(make(chan struct{}), started())
	c := r.terminal(t, "")
	c.next()
	for _, m := range []struct {
		channel     byte
		data, field string
	}{
		{channelStdout, "x", "channel"}, {channelStderr, "x", "channel"}, {200, "x", "channel"}, {channelControl, "", ""}, {channelControl, "{", ""},
		{channelControl, `{"type":"dance"}`, "type"}, {channelControl, `{"type":"resize","rows":0,"cols":1}`, "rows"}, {channelControl, `{"type":"resize","rows":1,"cols":1001}`, "cols"},
		{channelControl, `{"type":"signal","signal":"INT"}`, "signal"}, {channelControl, `{"type":"signal"}`, "signal"}, {channelControl, `{"type":"close_stdin","rows":1}`, "type"},
		{channelControl, `{"type":"signal","signal":"SIGINT","x":1}`, "x"},
	} {
		c.send(m.channel, m.data)
		var got struct {
			Type    string
			Problem struct{ Code, Field string }
		}
		if s := c.next(); json.Unmarshal([]byte(s), &got) != nil || got.Type != "error" || got.Problem.Code != "invalid_request" || got.Problem.Field != m.field {
			t.Errorf("%d %s: %s", m.channel, m.data, s)
		}
	}
	c.send(channelControl, `{"type":"signal","signal":"SIGINT"}`)
	k.until(t, "the signal, after all that", func() bool { return len(k.told) == 1 })
	c.send(channelControl, `{"type":"close_stdin"}`)
	k.until(t, "the end of the input", func() bool { return k.closed })
	c.send(channelStdin, "x")
	c.send(channelStdin, "y")
	if s := c.next(); !strings.Contains(s, `"conflict"`) {
		t.Errorf("input after its end: %s", s)
	}
}

func TestRudeTerminals(t *testing.T) {
	r := newRig(t)
	r.call = newKeyboard().call
	for name, tt := range map[string]struct {
		send func(*terminal)
		want string
	}{
		"text":     {func(c *terminal) { c.Write(c.ctx, websocket.MessageText, []byte("hello")) }, "closed 1003"},
		"too long": {func(c *terminal) { c.Write(c.ctx, websocket.MessageBinary, make([]byte, maxFrame+1)) }, "closed 1009"},
		"leaves":   {func(c *terminal) { c.Close(websocket.StatusNormalClosure, "") }, "broken"},
		"vanishes": {func(c *terminal) { c.CloseNow() }, "broken"},
	} {
		gone := make(chan struct{})
		r.attach = hangs(gone, started())
		c := r.terminal(t, "")
		c.next()
		tt.send(c)
		if got := c.rest(); got[len(got)-1] != tt.want && tt.want != "broken" {
			t.Errorf("%s: %q", name, got)
		}
		await(t, name+": the node's stream has ended", gone)
	}
}

func TestTerminalThatDoesNotAnswerPings(t *testing.T) {
	r := newRig(t)
	r.timing.keepAlive, r.timing.slow, r.timing.grace = 10*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	r.call = newKeyboard().call
	gone := make(chan struct{})
	r.attach = hangs(gone, started())
	c := r.terminal(t, "")
	c.next() // and then nothing is read, so no ping is seen
	await(t, "the node's stream has ended", gone)
}

func TestDeafTerminalIsDisconnected(t *testing.T) {
	r := newRig(t)
	r.timing.slow, r.timing.grace = 50*time.Millisecond, 50*time.Millisecond
	r.call = newKeyboard().call
	gone := make(chan struct{})
	r.attach = floods(gone)
	c := r.terminal(t, "")
	c.next()
	await(t, "the node's stream has ended", gone)
}

func TestTerminalsAndTheEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		end  error
		want string
	}{
		"lost":        {space.Errorf(space.CodeExecutionLost, "killed"), "closed 1000"},
		"interrupted": {space.Errorf(space.CodeUnavailable, "restarted"), "closed 1013"},
	} {
		r := newRig(t)
		r.call = newKeyboard().call
		r.attach = sends(tt.end, started())
		if got := r.terminal(t, "").rest(); len(got) != 3 || got[2] != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	r := newRig(t)
	r.call = newKeyboard().call
	gone := make(chan struct{})
	r.attach = hangs(gone, started())
	c := r.terminal(t, "")
	c.next()
	stopped := make(chan struct{})
	go func() { defer close(stopped); r.stop() }()
	if got := c.rest(); !cmp.Equal(got, []string{`{"reason":"shutting_down","type":"ended"}`, "closed 1001"}) {
		t.Errorf("%q", got)
	}
	await(t, "the edge has ended", stopped)
}

// TestInputThatIsNotTaken: the client's signals still arrive when its input waits, and when it's taken it's all there, in order.
func TestInputThatIsNotTaken(t *testing.T) {
	r := newRig(t)
	k := newKeyboard()
	take := make(chan struct{})
	r.call = func(ctx context.Context, a *sandboxv1.Action, s *nodeCall) error {
		if a.GetStdin() != nil {
			<-take
		}
		return k.call(ctx, a, s)
	}
	r.attach = hangs(make(chan struct{}), started())
	c := r.terminal(t, "")
	c.next()
	var want strings.Builder
	for i := range inputQueue {
		line := fmt.Sprintf("%d %s\n", i, repeat("x", 1000))
		want.WriteString(line)
		c.send(channelStdin, line)
	}
	c.send(channelControl, `{"type":"signal","signal":"SIGINT"}`)
	k.until(t, "the signal", func() bool { return len(k.told) == 1 })
	close(take)
	k.until(t, "the input", func() bool { return k.typed == want.String() })
}

func FuzzFrame(f *testing.F) {
	for _, s := range []string{"\x00abc", "\x03{\"type\":\"resize\",\"rows\":1,\"cols\":2}", "\x03{\"type\":\"signal\",\"signal\":\"SIGINT\"}", "\x03{\"type\":\"close_stdin\"}", "", "\x01x", "\x03{"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readFrame(b)
		if err != nil {
			if space.CodeOf(err) != space.CodeInvalid {
				t.Errorf("%q: %v", b, err)
			}
			return
		}
		kinds := 0
		for _, is := range []bool{b[0] == channelStdin, m.signal != 0, m.rows != 0 && m.cols != 0, m.closeStdin} {
			if is {
				kinds++
			}
		}
		if kinds != 1 || m.rows > maxTerminal || m.cols > maxTerminal || m.signal > 64 {
			t.Errorf("%q: %+v", b, m)
		}
	})
}

func FuzzQuery(f *testing.F) {
	for _, s := range []string{"path=/a&user=root", "path=%00", "path=%ff", "path=/a&path=/b", "depth=3", "%zz", "a;b", "recursive=true", "mode=0644"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := readQuery(raw, []string{"path", "user", "depth", "recursive", "mode"})
		if err != nil {
			return
		}
		if p, err := q.path(); err == nil && (p == "" || len(p) > maxPath || strings.ContainsRune(p, 0)) {
			t.Errorf("path %q", p)
		}
		if n, err := q.number("depth", 1, maxDepth, 1); err == nil && (n < 1 || n > maxDepth) {
			t.Errorf("depth %d", n)
		}
		if m, err := q.mode(); err == nil && m != nil && *m > 0o7777 {
			t.Errorf("mode %o", *m)
		}
		q.user()
		q.flag("recursive")
	})
}
