package peer

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
)

const waitLimit = 10 * time.Second

// answers serves Synchronize with one function.
type answers struct {
	controlv1connect.UnimplementedControlServiceHandler
	answer func(context.Context) error
}

func (a answers) Synchronize(ctx context.Context, _ *connect.Request[controlv1.SynchronizeRequest]) (*connect.Response[controlv1.SynchronizeResponse], error) {
	if err := a.answer(ctx); err != nil {
		return nil, ToConnect(err)
	}
	return connect.NewResponse(&controlv1.SynchronizeResponse{}), nil
}

func serve(t *testing.T, answer func(context.Context) error) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "rpc.sock")
	l, err := Listen(socket, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(controlv1connect.NewControlServiceHandler(answers{answer: answer}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := Serve(ctx, l, mux); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return socket
}

func call(ctx context.Context, socket string, uid int) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	client := Client(socket, uid)
	defer client.CloseIdleConnections()
	_, err := controlv1connect.NewControlServiceClient(client, "http://socket", ClientOptions(1<<20)).
		Synchronize(ctx, connect.NewRequest(&controlv1.SynchronizeRequest{}))
	return FromConnect(err)
}

func TestHandlersKnowTheirPeer(t *testing.T) {
	socket := serve(t, func(ctx context.Context) error {
		if uid, ok := UID(ctx); !ok || uid != os.Getuid() {
			return space.Errorf(space.CodeForbidden, "uid %d, %v", uid, ok)
		}
		return nil
	})
	if err := call(t.Context(), socket, os.Getuid()); err != nil {
		t.Error(err)
	}
}

func TestListenerOfAnotherUIDIsNotSpokenTo(t *testing.T) {
	socket := serve(t, func(context.Context) error { t.Error("it was spoken to"); return nil })
	if err := call(t.Context(), socket, os.Getuid()+1); space.CodeOf(err) != space.CodeUnavailable {
		t.Error(err)
	}
}

func TestPeerOfAnotherUIDIsRefused(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "rpc.sock")
	l, err := Listen(socket, os.Getuid()+1)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			t.Errorf("accepted %v", c.RemoteAddr())
		}
	}()
	if err := call(t.Context(), socket, os.Getuid()); space.CodeOf(err) != space.CodeUnavailable {
		t.Error(err)
	}
	l.Close()
	<-done
}

func TestErrorsCrossWithTheirCode(t *testing.T) {
	for _, code := range space.Codes() {
		want := &space.Error{Code: code, Field: "field", Message: "what happened"}
		var got *space.Error
		if !errors.As(FromConnect(ToConnect(want)), &got) || *got != *want {
			t.Errorf("%v came as %v", want, got)
		}
	}
	for err, want := range map[error]space.Code{context.DeadlineExceeded: space.CodeTimeout, context.Canceled: space.CodeUnavailable} {
		if got := space.CodeOf(FromConnect(ToConnect(err))); got != want {
			t.Errorf("%v came as %q", err, got)
		}
	}
	if got := FromConnect(ToConnect(errors.New("secret"))); space.CodeOf(got) != space.CodeInternal || errors.Is(got, errors.New("secret")) {
		t.Error(got)
	}
}

func TestFailuresOfTheWay(t *testing.T) {
	if err := call(t.Context(), "/nonexistent/rpc.sock", 0); space.CodeOf(err) != space.CodeUnavailable {
		t.Errorf("nobody listens: %v", err)
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "rpc.sock"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close() // as a process that dies: connect calls this canceled
		}
	}()
	if err := call(t.Context(), l.Addr().String(), os.Getuid()); space.CodeOf(err) != space.CodeUnavailable {
		t.Errorf("the connection was reset: %v", err)
	}
	l.Close()
	<-done
	socket := serve(t, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := call(ctx, socket, os.Getuid()); space.CodeOf(err) != space.CodeTimeout {
		t.Errorf("no time left: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := call(ctx, socket, os.Getuid()); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller gave up: %v", err)
	}
}

func TestRoutesCrossWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := space.Route{Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: rapid.Uint64Min(1).Draw(t, "epoch"),
			Placement: space.Placement{Kind: space.PlacementNode, Node: rapid.StringN(1, 20, -1).Draw(t, "node")}}
		if rapid.Bool().Draw(t, "pod") {
			r.Placement.Kind, r.Placement.PodUID = space.PlacementPod, "uid"
		}
		if got, err := Route(RouteMessage(r)); err != nil || got != r {
			t.Fatalf("%+v came as %+v, %v", r, got, err)
		}
	})
	for name, m := range map[string]*routev1.Route{"nil": nil, "empty": {}} {
		if _, err := Route(m); space.CodeOf(err) != space.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDialWaitsForRoomInTheQueue has more connect than the listener's queue takes: a connect that doesn't block fails with EAGAIN then.
func TestDialWaitsForRoomInTheQueue(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "full.sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: socket}), unix.Listen(fd, 1)); err != nil {
		t.Fatal(err)
	}
	for {
		c, err := net.Dial("unix", socket)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	short, cancel := context.WithTimeout(t.Context(), 5*dialPause)
	defer cancel()
	if _, err := Dial(short, socket, os.Getuid()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a full queue: %v", err)
	}
	dialled := make(chan error)
	go func() {
		c, err := Dial(t.Context(), socket, os.Getuid())
		if err == nil {
			c.Close()
		}
		dialled <- err
	}()
	accepted, _, err := unix.Accept(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(accepted)
	if err := <-dialled; err != nil {
		t.Errorf("with room in the queue: %v", err)
	}
}
