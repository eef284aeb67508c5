package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/api/gen/sandbox/v1/sandboxv1connect"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/gen/session/v1/sessionv1connect"
	uploadv1 "github.com/space-platform/space/api/gen/upload/v1"
	"github.com/space-platform/space/api/gen/upload/v1/uploadv1connect"
	"github.com/space-platform/space/internal/node/relay"
	"github.com/space-platform/space/internal/peer"
)

const (
	waitLimit  = 10 * time.Second
	onSocket   = "http://socket"
	edgeUID    = 61_001
	managerUID = 61_002
)

// TestMain is also the program that other uids run: it makes one call and prints the code of what it gets.
func TestMain(m *testing.M) {
	if socket := os.Getenv("DOOR"); socket != "" {
		fmt.Println(map[string]func(string) error{
			"attach": callAttach, "call": callCall, "put": callPut, "synchronize": callSynchronize, "resolve": callResolve,
		}[os.Getenv("VERB")](socket))
		return
	}
	os.Exit(m.Run())
}

func callAttach(socket string) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	s, err := sessionv1connect.NewSessionServiceClient(peer.Client(socket, 0), onSocket, peer.ClientOptions(1<<20)).Attach(ctx, connect.NewRequest(attachRequest()))
	if err != nil {
		return code(err)
	}
	defer s.Close()
	for s.Receive() {
	}
	return code(s.Err())
}

func callCall(socket string) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	s := sandboxv1connect.NewSandboxServiceClient(peer.Client(socket, 0), onSocket, peer.ClientOptions(1<<20)).Call(ctx)
	s.Send(&sandboxv1.CallRequest{Route: attachRequest().GetRoute()})
	s.CloseRequest()
	for {
		if _, err := s.Receive(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return code(err)
		}
	}
}

func callPut(socket string) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	s := uploadv1connect.NewUploadServiceClient(peer.Client(socket, 0), onSocket, peer.ClientOptions(1<<20)).Put(ctx)
	s.Send(&uploadv1.PutRequest{Upload: &uploadv1.Upload{Id: space.NewID(space.PrefixUpload), Node: "here", MaxBytes: 1}, End: true})
	_, err := s.CloseAndReceive()
	return code(err)
}

func callSynchronize(socket string) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	_, err := controlv1connect.NewControlServiceClient(peer.Client(socket, 0), onSocket).Synchronize(ctx, connect.NewRequest(&controlv1.SynchronizeRequest{Node: "here"}))
	return code(err)
}

func callResolve(socket string) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	_, err := controlv1connect.NewControlServiceClient(peer.Client(socket, 0), onSocket).ResolveAttachment(ctx, connect.NewRequest(&controlv1.ResolveAttachmentRequest{}))
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return fmt.Errorf("unimplemented")
	}
	return code(err)
}

func code(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s", space.CodeOf(peer.FromConnect(err)))
}

// behind is the control plane and sbx-manager in one.
type behind struct {
	attach   func(context.Context, func(*sessionv1.AttachResponse) error) error
	reported chan struct{} // if set, Synchronize waits for it
}

func (b behind) Synchronize(ctx context.Context, _ *connect.Request[controlv1.SynchronizeRequest]) (*connect.Response[controlv1.SynchronizeResponse], error) {
	if b.reported != nil {
		select {
		case <-b.reported:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return connect.NewResponse(&controlv1.SynchronizeResponse{}), nil
}

func (b behind) Attach(ctx context.Context, _ *connect.Request[sessionv1.AttachRequest], out *connect.ServerStream[sessionv1.AttachResponse]) error {
	return b.attach(ctx, out.Send)
}

func (b behind) Call(context.Context, *connect.BidiStream[sandboxv1.CallRequest, sandboxv1.CallResponse]) error {
	return nil
}

func (b behind) Put(context.Context, *connect.ClientStream[uploadv1.PutRequest]) (*connect.Response[uploadv1.PutResponse], error) {
	return connect.NewResponse(&uploadv1.PutResponse{}), nil
}

func exits(_ context.Context, send func(*sessionv1.AttachResponse) error) error {
	return send(&sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Exit{Exit: &sessionv1.Exit{}}})
}

func attachRequest() *sessionv1.AttachRequest {
	return &sessionv1.AttachRequest{Session: space.NewID(space.PrefixSession), Spec: &sessionv1.Spec{Argv: []string{"true"}}, Route: peer.RouteMessage(space.Route{
		Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: 1,
		Placement: space.Placement{Kind: space.PlacementNode, Node: "here"},
	})}
}

// newDoor serves a door to the given uids, in a directory that all can enter.
func newDoor(t *testing.T, b behind, edge, manager int, others ...int) (socket string) {
	t.Helper()
	socket, _ = openDoor(t, b, edge, manager, others...)
	return socket
}

// openDoor is newDoor for who stops it before the test ends.
func openDoor(t *testing.T, b behind, edge, manager int, others ...int) (socket string, stop func()) {
	t.Helper()
	t.Parallel() // a server takes a second to say goodbye
	dir, err := os.MkdirTemp("", "door")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(sessionv1connect.NewSessionServiceHandler(b))
	mux.Handle(sandboxv1connect.NewSandboxServiceHandler(b))
	mux.Handle(uploadv1connect.NewUploadServiceHandler(b))
	below := filepath.Join(dir, "below.sock")
	serve(t, below, func(l *peer.Listener, ctx context.Context) error { return peer.Serve(ctx, l, mux) }, 0)
	client := peer.Client(below, 0)
	t.Cleanup(client.CloseIdleConnections)
	socket = filepath.Join(dir, "rpc.sock")
	door := NewHandler(Config{
		Node: "here", EdgeUID: edge, ManagerUID: manager, Control: b,
		Manager:   sessionv1connect.NewSessionServiceClient(client, onSocket, peer.ClientOptions(1<<20)),
		Sandboxes: sandboxv1connect.NewSandboxServiceClient(client, onSocket, peer.ClientOptions(1<<20)),
		Uploads:   uploadv1connect.NewUploadServiceClient(client, onSocket, peer.ClientOptions(1<<20)),
	})
	stop = serve(t, socket, func(l *peer.Listener, ctx context.Context) error { return peer.Serve(ctx, l, door) }, append(others, edge, manager)...)
	return socket, stop
}

func serve(t *testing.T, path string, run func(*peer.Listener, context.Context) error, uids ...int) (stop func()) {
	t.Helper()
	l, err := peer.Listen(path, uids...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(l, ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// as makes a call as another uid, in a process of its own.
func as(t *testing.T, uid int, socket, verb string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(socket), "caller"))
	cmd.Env = []string{"DOOR=" + socket, "VERB=" + verb}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(os.Getgid())}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("uid %d, %s: %v: %s", uid, verb, err, out)
	}
	return strings.TrimSpace(string(out))
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		dst.Close()
		return err
	}
	return dst.Close()
}

func TestEachPeerHasItsVerb(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test takes on other uids: run it as root")
	}
	const otherRole, stranger = 61_003, 61_004
	socket := newDoor(t, behind{attach: exits}, edgeUID, managerUID, otherRole)
	if err := copyFile(os.Args[0], filepath.Join(filepath.Dir(socket), "caller")); err != nil {
		t.Fatal(err) // the original lies where other uids can't read
	}
	for _, tt := range []struct {
		who       string
		uid       int
		verb, got string
	}{
		{"the edge", edgeUID, "attach", "<nil>"},
		{"the edge", edgeUID, "call", "<nil>"},
		{"the edge", edgeUID, "put", "<nil>"},
		{"the edge", edgeUID, "synchronize", "forbidden"},
		{"the edge", edgeUID, "resolve", "forbidden"},
		{"sbx-manager", managerUID, "synchronize", "<nil>"},
		{"sbx-manager", managerUID, "attach", "forbidden"},
		{"sbx-manager", managerUID, "call", "forbidden"},
		{"sbx-manager", managerUID, "put", "forbidden"},
		{"sbx-manager", managerUID, "resolve", "unimplemented"},
		{"another role", otherRole, "attach", "forbidden"},
		{"another role", otherRole, "synchronize", "forbidden"},
		{"a stranger", stranger, "attach", "unavailable"},
		{"a stranger", stranger, "synchronize", "unavailable"},
	} {
		t.Run(tt.who+" calls "+tt.verb, func(t *testing.T) {
			t.Parallel()
			if got := as(t, tt.uid, socket, tt.verb); got != tt.got {
				t.Errorf("%s, want %s", got, tt.got)
			}
		})
	}
}

func TestAttachIsBounded(t *testing.T) {
	socket := newDoor(t, behind{attach: exits}, 0, 0)
	client := sessionv1connect.NewSessionServiceClient(peer.Client(socket, 0), onSocket, peer.ClientOptions(1<<20))
	for name, change := range map[string]func(*sessionv1.AttachRequest){
		"no session":      func(r *sessionv1.AttachRequest) { r.Session = "" },
		"a sandbox's id":  func(r *sessionv1.AttachRequest) { r.Session = space.NewID(space.PrefixSandbox) },
		"nothing to run":  func(r *sessionv1.AttachRequest) { r.Spec.Argv = nil },
		"too much of all": func(r *sessionv1.AttachRequest) { r.Spec.Stdin = make([]byte, 3<<20) },
	} {
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		req := attachRequest()
		change(req)
		s, err := client.Attach(ctx, connect.NewRequest(req))
		if err == nil {
			if s.Receive() {
				t.Errorf("%s: %v", name, s.Msg())
			}
			err = s.Err()
			s.Close()
		}
		if c := connect.CodeOf(err); c != connect.CodeInvalidArgument && c != connect.CodeResourceExhausted {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

func TestReportsAreBounded(t *testing.T) {
	release := make(chan struct{})
	socket := newDoor(t, behind{attach: exits, reported: release}, 0, 0)
	client := controlv1connect.NewControlServiceClient(peer.Client(socket, 0), onSocket)
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	ask := func(hang time.Duration) error {
		_, err := client.Synchronize(ctx, connect.NewRequest(&controlv1.SynchronizeRequest{Node: "here", MaxHang: durationpb.New(hang)}))
		return peer.FromConnect(err)
	}
	for _, hang := range []time.Duration{-time.Second, time.Minute} {
		if got := space.CodeOf(ask(hang)); got != space.CodeInvalid {
			t.Errorf("hang %s: %q", hang, got)
		}
	}
	results := make(chan error)
	for range maxReports + 1 {
		go func() { results <- ask(time.Second) }()
	}
	if got := space.CodeOf(<-results); got != space.CodeUnavailable {
		t.Errorf("one too many: %q", got)
	}
	close(release)
	for range maxReports {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// TestStoppedDoorSaysGoodbye stops the door in the middle of a stream: the edge learns why, from an event.
func TestStoppedDoorSaysGoodbye(t *testing.T) {
	socket, stop := openDoor(t, behind{attach: func(ctx context.Context, send func(*sessionv1.AttachResponse) error) error {
		if err := send(&sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Started{Started: &sessionv1.Started{}}}); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}}, 0, 0)
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	s, err := sessionv1connect.NewSessionServiceClient(peer.Client(socket, 0), onSocket).Attach(ctx, connect.NewRequest(attachRequest()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !s.Receive() || s.Msg().GetStarted() == nil {
		t.Fatalf("%v, %v", s.Msg(), s.Err())
	}
	stop()
	if !s.Receive() || s.Msg().GetEnded().GetReason() != relay.ReasonShuttingDown {
		t.Errorf("the last event is %v, %v", s.Msg(), s.Err())
	}
}

// TestCallerThatLeavesEndsTheCall has the edge drop its stream: whoever is behind the door must learn of it.
func TestCallerThatLeavesEndsTheCall(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	socket := newDoor(t, behind{attach: func(ctx context.Context, _ func(*sessionv1.AttachResponse) error) error {
		close(begun)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	}}, 0, 0)
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, err := sessionv1connect.NewSessionServiceClient(peer.Client(socket, 0), onSocket).Attach(ctx, connect.NewRequest(attachRequest()))
		if err == nil {
			t.Error("attached to a silent session")
		}
	}()
	<-begun
	cancel()
	<-left
	select {
	case <-ended:
	case <-time.After(waitLimit):
		t.Error("the call behind the door goes on")
	}
}
