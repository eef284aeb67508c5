package edge

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

// soonGone is what a client that brings or takes nothing has left, and somebody waits for. One that takes its last event has the usual time.
const soonGone = 200 * time.Millisecond

// guardRig is an edge that looks often, and a node on which everything lasts.
func guardRig(t *testing.T, leave time.Duration) (r *rig, arrived, left chan string) {
	r = newRig(t)
	r.stop()
	r.timing.look, r.timing.leave, r.timing.keepAlive = 5*time.Millisecond, leave, 5*time.Millisecond
	r.serve(t)
	arrived, left = make(chan string, 100), make(chan string, 100)
	r.attach = hangs(make(chan struct{}), started())
	r.call = func(ctx context.Context, a *sandboxv1.Action, s *nodeCall) error {
		data := &sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Data{Data: make([]byte, 64<<10)}}
		switch {
		case a.GetWatch() != nil:
			s.Send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Ready{Ready: &sandboxv1.Ready{}}})
		case a.GetRead() != nil:
			s.Send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Entry{Entry: &sandboxv1.Entry{Path: "/f", Type: "file", Size: 1 << 20, Modified: timestamppb.Now()}}})
			s.Send(data)
		case a.GetReadArchive() != nil:
			s.Send(data)
		default:
			m, err := s.Receive()
			if err != nil {
				return err
			}
			arrived <- string(m.GetData())
			for err == nil {
				_, err = s.Receive()
			}
			left <- err.Error()
			return err
		}
		<-ctx.Done()
		left <- ctx.Err().Error()
		return ctx.Err()
	}
	return r, arrived, left
}

// open is what a client holds open: how it ends is received.
type open chan string

// streaming holds a stream of events.
func streaming(t *testing.T, c *client) open {
	c.mustNext(t)
	out := make(open, 1)
	go func() {
		last := sse{}
		for {
			e, err := c.next()
			if err != nil {
				out <- last.name + " " + last.data
				return
			}
			last = e
		}
	}()
	return out
}

// taking holds an answer whose body doesn't come to its end.
func taking(t *testing.T, c *client) open {
	if _, err := io.ReadFull(c.lines, make([]byte, 4)); err != nil || c.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", c.Status, err)
	}
	out := make(open, 1)
	go func() {
		if _, err := io.ReadAll(c.lines); err != nil {
			out <- "cut"
		} else {
			out <- "whole"
		}
	}()
	return out
}

// bringing holds a request whose body brings something and then nothing.
func bringing(t *testing.T, r *rig, method, path string, bytes int, headers ...string) open {
	body, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	go w.Write([]byte(strings.Repeat("x", bytes)))
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.box)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if req.Header.Get("Authorization") == "" {
		req.Header.Del("Authorization")
	}
	out := make(open, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			out <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		_, code, _ := bytesCut(b)
		out <- resp.Status[:3] + " " + code
	}()
	return out
}

// bytesCut finds the code of a problem.
func bytesCut(b []byte) (before, code string, found bool) {
	_, rest, found := bytes.Cut(b, []byte(`"code":"`))
	code, _, _ = strings.Cut(string(rest), `"`)
	return string(b), code, found
}

// talk holds a WebSocket, and reports the code with which it's closed.
func talk(t *testing.T, r *rig) open {
	c := r.terminal(t, "")
	if got := c.next(); !strings.Contains(got, "started") {
		t.Fatalf("first came %s", got)
	}
	out := make(open, 1)
	go func() { out <- strings.Join(c.rest(), "|") }()
	return out
}

const signedQuery = "?path=/f&expires=9999999999&signature=good"

// TestWhatIsOpenEndsWithItsMaterial holds everything open that a material can, and has the control plane say what it has to say of each.
func TestWhatIsOpenEndsWithItsMaterial(t *testing.T) {
	const ended = `ended {"reason":"token_ended"}`
	for name, x := range map[string]struct {
		open            func(*testing.T, *rig) open
		revoked, expire string // how it ends; "": it goes on
		brings          int    // bytes that the node gets before
	}{
		"attach":            {func(t *testing.T, r *rig) open { return streaming(t, r.open(t)) }, ended, ended, 0},
		"attach, WebSocket": {talk, `{"reason":"token_ended","type":"ended"}|closed 1008`, `{"reason":"token_ended","type":"ended"}|closed 1008`, 0},
		"watch":             {func(t *testing.T, r *rig) open { return streaming(t, r.ask(t, "GET", r.files("/watch?path=/"), nil)) }, ended, ended, 0},
		"stdin":             {func(t *testing.T, r *rig) open { return bringing(t, r, "POST", r.sessionPath("/stdin?offset=0"), 1) }, "401 unauthenticated", "401 token_expired", 1},
		"upload":            {func(t *testing.T, r *rig) open { return bringing(t, r, "PUT", r.files("/content?path=/f"), pieceBytes) }, "401 unauthenticated", "", pieceBytes},
		"upload, signed": {func(t *testing.T, r *rig) open {
			return bringing(t, r, "PUT", r.files("/content"+signedQuery), pieceBytes, "Authorization", "")
		}, "401 unauthenticated", "", pieceBytes},
		"upload of archive": {func(t *testing.T, r *rig) open { return bringing(t, r, "PUT", r.files("/archive?path=/f"), pieceBytes) }, "401 unauthenticated", "", pieceBytes},
		"download":          {func(t *testing.T, r *rig) open { return taking(t, r.ask(t, "GET", r.files("/content?path=/f"), nil)) }, "cut", "", 0},
		"download, signed": {func(t *testing.T, r *rig) open {
			return taking(t, r.ask(t, "GET", r.files("/content"+signedQuery), nil, "Authorization", ""))
		}, "cut", "", 0},
		"download of archive": {func(t *testing.T, r *rig) open { return taking(t, r.ask(t, "GET", r.files("/archive?path=/f"), nil)) }, "cut", "", 0},
	} {
		for said, want := range map[string]string{"revoked": x.revoked, "expired": x.expire, "unknown": "", "not answered": ""} {
			t.Run(name+": "+said, func(t *testing.T) {
				leave := soonGone
				if strings.HasPrefix(name, "attach") {
					leave = usualTiming.leave
				}
				r, arrived, left := guardRig(t, leave)
				o := x.open(t, r)
				for got := 0; got < x.brings; got += len(<-arrived) {
				}
				r.mu.Lock()
				switch said {
				case "revoked", "expired":
					r.ended = func(*controlv1.Material) *controlv1.EndedMaterial {
						return &controlv1.EndedMaterial{Revoked: said == "revoked"}
					}
				case "not answered":
					r.plane = func(any) error { return space.Errorf(space.CodeUnavailable, "no") }
				}
				before := r.looked
				r.mu.Unlock()
				if want == "" {
					goesOn(t, r, o, before+5)
					return
				}
				select {
				case got := <-o:
					if got != want {
						t.Errorf("it ended with %q, want %q", got, want)
					}
				case <-time.After(waitLimit):
					t.Fatal("it goes on")
				}
				if !strings.HasPrefix(name, "attach") {
					select {
					case <-left:
					case <-time.After(waitLimit):
						t.Error("the node still works on it")
					}
				}
			})
		}
	}
}

// TestOneQuestionForAllThatAMaterialOpened, whatever it opened.
func TestOneQuestionForAllThatAMaterialOpened(t *testing.T) {
	r, _, _ := guardRig(t, soonGone)
	for range 3 {
		streaming(t, r.open(t))
		streaming(t, r.ask(t, "GET", r.files("/watch?path=/"), nil))
	}
	asked := make(chan int, 1000)
	r.mu.Lock()
	r.plane = func(m any) error {
		if m, ok := m.(*controlv1.FindEndedRequest); ok {
			asked <- len(m.GetMaterials())
		}
		return nil
	}
	r.mu.Unlock()
	for range 3 {
		if n := <-asked; n != 2 {
			t.Errorf("%d materials in a question, want the session's and the sandbox's", n)
		}
	}
}

// TestClientThatTakesNothingIsCutOff: the end of a material doesn't wait for a client as long as an event does.
func TestClientThatTakesNothingIsCutOff(t *testing.T) {
	r, _, _ := guardRig(t, soonGone)
	r.attach = func(_ context.Context, _ *sessionv1.AttachRequest, send func(*sessionv1.AttachResponse) error) error {
		data := strings.Repeat("x", 32<<10)
		for err, offset := send(started()), uint64(0); ; offset += uint64(len(data)) {
			if err != nil {
				return err
			}
			err = send(output(stdout, offset, data))
		}
	}
	r.open(t)
	terminal := r.terminal(t, "")
	defer terminal.CloseNow()
	r.mu.Lock()
	r.ended = func(*controlv1.Material) *controlv1.EndedMaterial { return &controlv1.EndedMaterial{Revoked: true} }
	r.mu.Unlock()
	const soon = 3 * time.Second // a WebSocket's farewell would take 5 s
	for deadline := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		r.attaches.mu.Lock()
		n := r.attaches.all
		r.attaches.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d attaches are left", n)
		}
	}
}

// goesOn waits until the control plane was asked so often, and checks that something is open still.
func goesOn(t *testing.T, r *rig, o open, until int) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); ; time.Sleep(time.Millisecond) {
		select {
		case got := <-o:
			t.Fatalf("it ended with %q", got)
		default:
		}
		r.mu.Lock()
		looked := r.looked
		r.mu.Unlock()
		if looked >= until {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("asked %d times, want %d", looked, until)
		}
	}
}
