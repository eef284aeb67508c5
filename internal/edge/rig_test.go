package edge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/api/gen/sandbox/v1/sandboxv1connect"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/gen/session/v1/sessionv1connect"
	uploadv1 "github.com/space-platform/space/api/gen/upload/v1"
	"github.com/space-platform/space/api/gen/upload/v1/uploadv1connect"
	"github.com/space-platform/space/internal/peer"
)

const waitLimit = 10 * time.Second

// rig is an edge on a real TCP port, with a control plane and a node behind real unix sockets.
type rig struct {
	*Edge
	url     string
	session string
	sandbox string // of the session
	upload  string
	token   string // of the session
	box     string // of the sandbox
	put     string // of the upload
	route   space.Route
	stop    func() // the edge, as on SIGTERM; returns when it has ended
	cutNode func() // ends every connection of the node, as a killed process does

	mu       sync.Mutex
	resolve  func(*controlv1.ResolveAttachmentRequest) error // nil: resolves
	attach   func(context.Context, *sessionv1.AttachRequest, func(*sessionv1.AttachResponse) error) error
	resolved int
	attached []*sessionv1.AttachRequest
	plane    func(any) error // nil: the control plane answers
	asleep   bool            // the sandbox: a session that is created in it has no target
	call     func(context.Context, *sandboxv1.Action, *connect.BidiStream[sandboxv1.CallRequest, sandboxv1.CallResponse]) error
	stage    func(*connect.ClientStream[uploadv1.PutRequest]) (*uploadv1.PutResponse, error)
	ended    func(*controlv1.Material) *controlv1.EndedMaterial // nil: none has
	looked   int                                                // questions about what is open
	asked    []any                                              // of the control plane
	actions  []*sandboxv1.Action                                // of the node
	log      bytes.Buffer
}

type controlSide struct {
	controlv1connect.UnimplementedControlServiceHandler
	*rig
}

func (r controlSide) ResolveAttachment(_ context.Context, req *connect.Request[controlv1.ResolveAttachmentRequest]) (*connect.Response[controlv1.ResolveAttachmentResponse], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resolved++
	if r.resolve != nil {
		if err := r.resolve(req.Msg); err != nil {
			return nil, peer.ToConnect(err)
		}
	}
	if req.Msg.GetToken() != r.token && req.Msg.GetToken() != r.box {
		return nil, peer.ToConnect(space.Errorf(space.CodeUnauthenticated, "the attachment token isn't valid"))
	}
	return connect.NewResponse(&controlv1.ResolveAttachmentResponse{
		Route: peer.RouteMessage(r.route), Session: r.session, Spec: &sessionv1.Spec{Argv: []string{"true"}},
	}), nil
}

// planeSide knows one sandbox, one session and one upload, each with its token.
type planeSide struct {
	controlv1connect.UnimplementedDataPlaneServiceHandler
	*rig
}

func (r planeSide) ask(m any, good bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, m)
	if r.plane != nil {
		if err := r.plane(m); err != nil {
			return peer.ToConnect(err)
		}
	}
	if !good {
		return peer.ToConnect(space.Errorf(space.CodeUnauthenticated, "the token isn't valid"))
	}
	return nil
}

func (r planeSide) ResolveSandbox(_ context.Context, req *connect.Request[controlv1.ResolveSandboxRequest]) (*connect.Response[controlv1.ResolveSandboxResponse], error) {
	m := req.Msg
	if err := r.ask(m, m.GetToken() == r.box && m.GetSigned() == nil || m.GetSigned().GetSignature() == "good" && m.GetToken() == ""); err != nil {
		return nil, err
	}
	return connect.NewResponse(&controlv1.ResolveSandboxResponse{Route: peer.RouteMessage(r.route), DefaultUser: "user"}), nil
}

func (r planeSide) ResolveSession(_ context.Context, req *connect.Request[controlv1.ResolveSessionRequest]) (*connect.Response[controlv1.ResolveSessionResponse], error) {
	if err := r.ask(req.Msg, req.Msg.GetToken() == r.token || req.Msg.GetToken() == r.box); err != nil {
		return nil, err
	}
	return connect.NewResponse(&controlv1.ResolveSessionResponse{Route: peer.RouteMessage(r.route), Session: r.session}), nil
}

func (r planeSide) ResolveUpload(_ context.Context, req *connect.Request[controlv1.ResolveUploadRequest]) (*connect.Response[controlv1.ResolveUploadResponse], error) {
	if err := r.ask(req.Msg, req.Msg.GetToken() == r.put); err != nil {
		return nil, err
	}
	return connect.NewResponse(&controlv1.ResolveUploadResponse{Upload: r.upload, Node: "here", MaxBytes: 1 << 20, Sha256: "abc", Project: "prj_1", ProjectBytes: 5}), nil
}

func (r planeSide) FindEnded(_ context.Context, req *connect.Request[controlv1.FindEndedRequest]) (*connect.Response[controlv1.FindEndedResponse], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked++
	if r.plane != nil {
		if err := r.plane(req.Msg); err != nil {
			return nil, peer.ToConnect(err)
		}
	}
	out := &controlv1.FindEndedResponse{}
	for i, m := range req.Msg.GetMaterials() {
		if r.ended == nil {
			break
		}
		if e := r.ended(m); e != nil {
			out.Ended = append(out.Ended, &controlv1.EndedMaterial{Index: uint32(i), Revoked: e.GetRevoked()})
		}
	}
	return connect.NewResponse(out), nil
}

func (r planeSide) CreateSession(_ context.Context, req *connect.Request[controlv1.CreateSessionRequest]) (*connect.Response[controlv1.CreateSessionResponse], error) {
	if err := r.ask(req.Msg, req.Msg.GetToken() == r.box); err != nil {
		return nil, err
	}
	out := &controlv1.CreateSessionResponse{Body: []byte(`{"session":{},"attachment":{}}`), Session: r.session}
	if req.Msg.GetAttach() && !r.asleep {
		out.Target = &controlv1.ResolveAttachmentResponse{Route: peer.RouteMessage(r.route), Session: r.session, Spec: &sessionv1.Spec{Argv: []string{"created"}}}
	}
	return connect.NewResponse(out), nil
}

type nodeSide struct{ *rig }

func (r nodeSide) Call(ctx context.Context, s *connect.BidiStream[sandboxv1.CallRequest, sandboxv1.CallResponse]) error {
	first, err := s.Receive()
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.actions = append(r.actions, first.GetAction())
	call := r.call
	r.mu.Unlock()
	if got, err := peer.Route(first.GetRoute()); err != nil || got != r.route {
		return peer.ToConnect(space.Errorf(space.CodeRouteDenied, "the route is %v, %v", got, err))
	}
	return peer.ToConnect(call(ctx, first.GetAction(), s))
}

func (r nodeSide) Put(_ context.Context, s *connect.ClientStream[uploadv1.PutRequest]) (*connect.Response[uploadv1.PutResponse], error) {
	resp, err := r.stage(s)
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	return connect.NewResponse(resp), nil
}

func (r nodeSide) Attach(ctx context.Context, req *connect.Request[sessionv1.AttachRequest], out *connect.ServerStream[sessionv1.AttachResponse]) error {
	r.mu.Lock()
	r.attached = append(r.attached, req.Msg)
	attach := r.attach
	r.mu.Unlock()
	return peer.ToConnect(attach(ctx, req.Msg, out.Send))
}

func (r *rig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{session: space.NewID(space.PrefixSession), upload: space.NewID(space.PrefixUpload), token: "spaceatt_abcDEF012", box: "spacesbx_abcDEF012", put: "spaceupl_abcDEF012", route: space.Route{
		Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: 1,
		Placement: space.Placement{Kind: space.PlacementNode, Node: "here"},
	}}
	r.sandbox = r.route.Sandbox
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(r, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })

	mux := http.NewServeMux()
	mux.Handle(controlv1connect.NewControlServiceHandler(controlSide{rig: r}))
	mux.Handle(controlv1connect.NewDataPlaneServiceHandler(planeSide{rig: r}))
	control, _ := listen(t, mux)
	mux = http.NewServeMux()
	mux.Handle(sessionv1connect.NewSessionServiceHandler(nodeSide{r}))
	mux.Handle(sandboxv1connect.NewSandboxServiceHandler(nodeSide{r}))
	mux.Handle(uploadv1connect.NewUploadServiceHandler(nodeSide{r}))
	node, cut := listen(t, mux)
	r.cutNode = cut
	toControl, toNode := peer.Client(control, 0), peer.Client(node, 0)
	r.Edge = New(Config{
		Control:   controlv1connect.NewControlServiceClient(toControl, "http://socket", peer.ClientOptions(MaxResolveBytes)),
		Plane:     controlv1connect.NewDataPlaneServiceClient(toControl, "http://socket", peer.ClientOptions(MaxResolveBytes)),
		Node:      sessionv1connect.NewSessionServiceClient(toNode, "http://socket", peer.ClientOptions(MaxEventBytes)),
		Sandboxes: sandboxv1connect.NewSandboxServiceClient(toNode, "http://socket", peer.ClientOptions(MaxResultBytes)),
		Uploads:   uploadv1connect.NewUploadServiceClient(toNode, "http://socket", peer.ClientOptions(MaxEventBytes)),
		Version:   "test",
		Origins:   []string{"https://app.example"},
	})
	r.serve(t)
	return r
}

func (r *rig) serve(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + l.Addr().String()
	r.stop = background(t, func(ctx context.Context) error { return r.Serve(ctx, l) })
}

// listen serves h on a unix socket; cut ends the server with all its connections.
func listen(t *testing.T, h http.Handler) (path string, cut func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "rpc.sock")
	l, err := peer.Listen(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := peer.Server(h)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(l)
	}()
	cut = func() { s.Close(); <-done }
	t.Cleanup(cut)
	return path, cut
}

func background(t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// sse is one event as a client reads it.
type sse struct{ id, name, data string }

// client is one attach.
type client struct {
	*http.Response
	lines *bufio.Reader
}

func (r *rig) request(t *testing.T, headers ...string) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/v1/sessions/"+r.session+"/attach", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

func (r *rig) do(t *testing.T, req *http.Request) *client {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &client{Response: resp, lines: bufio.NewReader(resp.Body)}
}

// open attaches and expects a stream.
func (r *rig) open(t *testing.T, headers ...string) *client {
	t.Helper()
	c := r.do(t, r.request(t, headers...))
	if c.StatusCode != http.StatusOK {
		t.Fatalf("attach: %s %+v", c.Status, c.problem(t))
	}
	return c
}

// next reads an event; io.EOF at the end. Comments come as events named ":".
func (c *client) next() (sse, error) {
	var e sse
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if strings.HasPrefix(line, ":") {
				e.name = ":"
				continue
			}
			return e, nil
		default:
			return e, fmt.Errorf("a line of the stream: %q", line)
		}
	}
}

func (c *client) mustNext(t *testing.T) sse {
	t.Helper()
	e, err := c.next()
	if err != nil {
		t.Fatalf("read an event: %v", err)
	}
	return e
}

// rest reads all events up to a clean end.
func (c *client) rest(t *testing.T) []sse {
	t.Helper()
	var out []sse
	for {
		e, err := c.next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatalf("after %d events: %v", len(out), err)
		}
		out = append(out, e)
	}
}

func (c *client) problem(t *testing.T) (p struct {
	Type, Title, Code, Detail, Field string
	RequestID                        string `json:"request_id"`
	Status                           int
}) {
	t.Helper()
	if got := c.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q of an error", got)
	}
	if err := json.NewDecoder(c.lines).Decode(&p); err != nil {
		t.Errorf("decode problem: %v", err)
	}
	if p.Status != c.StatusCode || p.Type == "" || p.Title == "" || space.CheckID(space.PrefixRequest, p.RequestID) != nil {
		t.Errorf("problem %+v of status %d", p, c.StatusCode)
	}
	listed, err := problems()
	if err != nil {
		t.Fatal(err)
	}
	if listed.Unlisted(c.Request, p.Code) {
		t.Errorf("%s %s answers with %s, which the contract doesn't list for it", c.Request.Method, c.Request.URL.Path, p.Code)
	}
	return p
}

// Events of the internal stream.

func started() *sessionv1.AttachResponse {
	return &sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Started{Started: &sessionv1.Started{}}}
}

func output(s sessionv1.Stream, offset uint64, data string) *sessionv1.AttachResponse {
	return &sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Output{Output: &sessionv1.Output{Stream: s, Offset: offset, Data: []byte(data)}}}
}

func gap(from, to uint64) *sessionv1.AttachResponse {
	return &sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Gap{Gap: &sessionv1.Gap{From: from, To: to}}}
}

func exit(x *sessionv1.Exit) *sessionv1.AttachResponse {
	return &sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Exit{Exit: x}}
}

func lost(err error) *sessionv1.AttachResponse {
	return &sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Lost{Lost: &sessionv1.Lost{Error: peer.ErrorMessage(err)}}}
}

const (
	stdout = sessionv1.Stream_STREAM_STDOUT
	stderr = sessionv1.Stream_STREAM_STDERR
)

// sends is a node that sends events and then returns err.
func sends(err error, events ...*sessionv1.AttachResponse) func(context.Context, *sessionv1.AttachRequest, func(*sessionv1.AttachResponse) error) error {
	return func(_ context.Context, _ *sessionv1.AttachRequest, send func(*sessionv1.AttachResponse) error) error {
		for _, e := range events {
			if err := send(e); err != nil {
				return err
			}
		}
		return err
	}
}

// deadControl is a control plane whose socket nobody listens on.
type deadControl struct{}

func (deadControl) ResolveAttachment(ctx context.Context, req *connect.Request[controlv1.ResolveAttachmentRequest]) (*connect.Response[controlv1.ResolveAttachmentResponse], error) {
	return controlv1connect.NewControlServiceClient(peer.Client("/nonexistent/rpc.sock", 0), "http://socket").ResolveAttachment(ctx, req)
}
