package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

type nodeCall = connect.BidiStream[sandboxv1.CallRequest, sandboxv1.CallResponse]

// ask makes a request with the sandbox's token, or other headers; an empty Authorization is left out.
func (r *rig) ask(t *testing.T, method, path string, body io.Reader, headers ...string) *client {
	t.Helper()
	req := r.request(t)
	q, err := http.NewRequestWithContext(req.Context(), method, r.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+r.box)
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	if q.Header.Get("Authorization") == "" {
		q.Header.Del("Authorization")
	}
	return r.do(t, q)
}

// fetch gets a body whole, or says why not; the connection may be cut at any moment.
func (r *rig) fetch(t *testing.T, path string) ([]byte, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(r.request(t).Context(), "GET", r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.box)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// files is the path of an operation on the sandbox's files.
func (r *rig) files(rest string) string { return "/v1/sandboxes/" + r.sandbox + "/files" + rest }

func (c *client) body(t *testing.T) string {
	t.Helper()
	b, err := io.ReadAll(c.lines)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// want fails unless an answer has the status, and decodes it into v if there's one.
func (c *client) want(t *testing.T, status int, v any) *client {
	t.Helper()
	b := c.body(t)
	if c.StatusCode != status {
		t.Fatalf("%s, want %d: %s", c.Status, status, b)
	}
	if v != nil {
		if err := json.Unmarshal([]byte(b), v); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
	}
	return c
}

// fails expects a problem.
func (c *client) fails(t *testing.T, code space.Code, field string) {
	t.Helper()
	if c.StatusCode != code.HTTPStatus() {
		t.Errorf("%s, want %s: %s", c.Status, code, c.body(t))
		return
	}
	if p := c.problem(t); p.Code != string(code) || p.Field != field {
		t.Errorf("%+v, want %s of %q", p, code, field)
	}
}

// disk is a guest whose files are entries of a map.
type disk struct {
	mu    sync.Mutex
	files map[string]string
	times map[string]time.Time
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 5000, time.UTC)

func newDisk(files map[string]string) *disk {
	return &disk{files: files, times: map[string]time.Time{}}
}

func (d *disk) entry(path string) *sandboxv1.Entry {
	at, ok := d.times[path]
	if !ok {
		at = noon
	}
	return &sandboxv1.Entry{Path: path, Type: "file", Size: uint64(len(d.files[path])), Mode: 0o644, Uid: 1000, Owner: "user", Modified: timestamppb.New(at)}
}

func sendEntry(s *nodeCall, e *sandboxv1.Entry) error {
	return s.Send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Entry{Entry: e}})
}

func sendData(s *nodeCall, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), 32<<10)
		if err := s.Send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Data{Data: b[:n]}}); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// upload reads what comes up to its end.
func upload(s *nodeCall) ([]byte, error) {
	var out bytes.Buffer
	for {
		m, err := s.Receive()
		if errors.Is(err, io.EOF) {
			return nil, space.Errorf(space.CodeInvalid, "the upload broke off")
		}
		if err != nil {
			return nil, err
		}
		out.Write(m.GetData())
		if m.GetEnd() {
			return out.Bytes(), nil
		}
	}
}

func (d *disk) call(_ context.Context, a *sandboxv1.Action, s *nodeCall) error {
	switch x := a.GetAction().(type) {
	case *sandboxv1.Action_Read:
		return d.read(x.Read, s)
	case *sandboxv1.Action_Write:
		b, err := upload(s)
		if err != nil {
			return err
		}
		d.mu.Lock()
		_, there := d.files[x.Write.GetPath()]
		d.files[x.Write.GetPath()] = string(b)
		e := d.entry(x.Write.GetPath())
		d.mu.Unlock()
		e.Created, e.Mode = !there, x.Write.GetMode()
		return sendEntry(s, e)
	}
	return space.Errorf(space.CodeInternal, "an action that the disk doesn't know: %v", a)
}

// read answers as the guest does.
func (d *disk) read(a *sandboxv1.Read, s *nodeCall) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	content, there := d.files[a.GetPath()]
	if !there {
		return space.Errorf(space.CodeNotFound, "there is no %s", a.GetPath())
	}
	size := uint64(len(content))
	if a.GetOffset() > size {
		return &space.Error{Code: space.CodeRange, Field: "offset", Message: "the file is shorter"}
	}
	to := size
	if !a.GetToEnd() {
		to = a.GetOffset() + min(a.GetLength(), size-a.GetOffset())
	}
	if err := sendEntry(s, d.entry(a.GetPath())); err != nil {
		return err
	}
	return sendData(s, []byte(content[a.GetOffset():to]))
}

// nothing is a guest that does what it's asked and has nothing to say.
func nothing(context.Context, *sandboxv1.Action, *nodeCall) error { return nil }

func (r *rig) lastAction(t *testing.T) *sandboxv1.Action {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.actions) == 0 {
		t.Fatal("nothing reached the node")
	}
	return r.actions[len(r.actions)-1]
}

// trickle is a body that brings its bytes one piece at a time, when it's told to, and then says what end says.
type trickle struct {
	pieces <-chan string
	end    error
}

func (b trickle) Read(p []byte) (int, error) {
	piece, ok := <-b.pieces
	if !ok {
		return 0, b.end
	}
	return copy(p, piece), nil
}

func pieces(p ...string) <-chan string {
	out := make(chan string, len(p))
	for _, x := range p {
		out <- x
	}
	close(out)
	return out
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }
