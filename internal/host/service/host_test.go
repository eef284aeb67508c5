package service

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/api/gen/host/v1/hostv1connect"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/api/gen/sandbox/v1/sandboxv1connect"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/gen/session/v1/sessionv1connect"
	"github.com/space-platform/space/api/gen/upload/v1/uploadv1connect"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/execution"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/snapshot"
	"github.com/space-platform/space/internal/host/template"
	"github.com/space-platform/space/internal/peer"
)

// rig serves a host whose work is the test's, on a real socket.
type rig struct {
	host     hostv1connect.HostServiceClient
	sessions sessionv1connect.SessionServiceClient
	sandbox  sandboxv1connect.SandboxServiceClient
	uploads  uploadv1connect.UploadServiceClient
	set      *session.Set // of every execution
	kept     *session.Store
	changes  *Changes
	stop     context.CancelFunc

	mu       sync.Mutex
	reports  []execution.Report
	orders   []execution.Order
	attached []session.Request
	err      error // of the next calls

	built    template.Order // the newest
	received map[string]uint64
	unwanted []string // uploads

	did       []string // what was ordered about executions and snapshots
	snapshots []snapshot.Report
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{changes: NewChanges()}
	h := &Host{Node: "here", Uploads: uploads{r}, Executions: executions{r}, Templates: templates{r}, Snapshots: snapshots{r}, Ends: ends{}, Facts: func() *controlv1.NodeFacts { return &controlv1.NodeFacts{Driver: "test"} }, Changes: r.changes}
	socket := filepath.Join(t.TempDir(), "sock")
	l, err := peer.Listen(socket, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- peer.Serve(ctx, l, h.Handler()) }()
	r.stop = stop
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	client := peer.Client(socket, 0)
	r.host = hostv1connect.NewHostServiceClient(client, "http://host")
	r.sessions = sessionv1connect.NewSessionServiceClient(client, "http://host")
	r.sandbox = sandboxv1connect.NewSandboxServiceClient(client, "http://host")
	r.uploads = uploadv1connect.NewUploadServiceClient(client, "http://host")
	if r.set, err = session.Open(t.TempDir(), session.Limits{}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.set.Close)
	if r.kept, err = session.OpenStore(t.TempDir(), session.Limits{}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kept.Close)
	return r
}

type executions struct{ *rig }

func (e executions) Ensure(_ context.Context, o execution.Order) (execution.Report, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if o.Admit != nil {
		if err := o.Admit(); err != nil {
			return execution.Report{}, err
		}
	}
	o.Admit = nil // functions can't be compared
	e.orders = append(e.orders, o)
	return execution.Report{Route: o.Route, State: space.ExecutionRunning, Since: time.Unix(1, 0)}, e.err
}

func (e executions) Stop(context.Context, space.Route, time.Duration) error { return e.err }

func (e executions) Remove(context.Context, space.Route) error { return e.err }

func (e executions) Sessions(space.Route) (*session.Set, error) { return e.set, e.err }

func (e executions) Kept(space.Route) (*session.Store, error) { return e.kept, e.err }

func (e executions) Guest(_ context.Context, _ space.Route, _ func(*link.Link) error) error {
	return cmp.Or(e.err, error(space.Errorf(space.CodeUnavailable, "no guest")))
}

func (e executions) Usage(context.Context, space.Route) (*sandboxv1.Usage, error) {
	return &sandboxv1.Usage{CpuSeconds: 1.5}, e.err
}

func (e executions) Attach(ctx context.Context, _ space.Route, q session.Request, send session.Send) error {
	e.mu.Lock()
	e.attached = append(e.attached, q)
	e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	started := &sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Started{Started: &sessionv1.Started{}}}
	if err := send(started); err != nil {
		return err
	}
	<-ctx.Done()
	return send(&sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Ended{Ended: &sessionv1.Ended{Reason: "shutting_down"}}})
}

func (e executions) Reports() []execution.Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reports
}

type templates struct{ *rig }

func (s templates) Ensure(o template.Order) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.built = o
	return s.err
}

func (s templates) Remove(string) error { return s.err }

func (s templates) Acknowledge(n map[string]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = n
}

func (s templates) Reports() []template.Report {
	return []template.Report{
		{Template: "tpl_a", State: template.Ready, Size: rootfs.Size{VCPUs: 1, MemoryBytes: 2, DiskBytes: 3}, Digest: "sha256:x"},
		{Template: "tpl_b", State: template.Failed, Err: space.Errorf(space.CodeInternal, "why")},
	}
}

func route() space.Route {
	return space.Route{
		Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: 1,
		Placement: space.Placement{Kind: space.PlacementNode, Node: "node"},
	}
}

// code is the code of an error that came over the wire.
func code(err error) space.Code { return space.CodeOf(peer.FromConnect(err)) }

func TestOrdersPassWholeAndErrorsKeepTheirCode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	want := route()
	order := &controlv1.EnsureExecution{
		Route: peer.RouteMessage(want), Template: space.NewID(space.PrefixTemplate), Shape: &controlv1.Shape{Vcpus: 1, MemoryBytes: 2, DiskBytes: 3},
		DiskOf: space.NewID(space.PrefixExecution),
	}
	got, err := r.host.EnsureExecution(t.Context(), connect.NewRequest(&hostv1.EnsureExecutionRequest{Order: order}))
	if err != nil {
		t.Fatal(err)
	}
	if got.Msg.GetReport().GetState() != "running" || r.orders[0].Route != want || r.orders[0].DiskOf != order.DiskOf || r.orders[0].Size != (rootfs.Size{VCPUs: 1, MemoryBytes: 2, DiskBytes: 3}) {
		t.Errorf("ordered %+v, reported %v", r.orders[0], got.Msg)
	}
	r.err = space.Errorf(space.CodeRouteStale, "stale")
	_, err = r.host.EnsureExecution(t.Context(), connect.NewRequest(&hostv1.EnsureExecutionRequest{Order: order}))
	if code(err) != space.CodeRouteStale {
		t.Errorf("ensure: %v", err)
	}
	_, err = r.host.StopExecution(t.Context(), connect.NewRequest(&hostv1.StopExecutionRequest{Order: &controlv1.StopExecution{Route: order.Route}}))
	if code(err) != space.CodeRouteStale {
		t.Errorf("stop: %v", err)
	}
	_, err = r.host.RemoveExecution(t.Context(), connect.NewRequest(&hostv1.RemoveExecutionRequest{Route: order.Route}))
	if code(err) != space.CodeRouteStale {
		t.Errorf("remove: %v", err)
	}
	_, err = r.host.EnsureTemplate(t.Context(), connect.NewRequest(&hostv1.EnsureTemplateRequest{Order: &controlv1.EnsureTemplate{Template: order.Template}}))
	if code(err) != space.CodeRouteStale {
		t.Errorf("template: %v", err)
	}
}

func TestIncompleteRoutesAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, change := range map[string]func(*routev1.Route){
		"sandbox":   func(m *routev1.Route) { m.Sandbox = "" },
		"execution": func(m *routev1.Route) { m.Execution = "exe_" },
		"epoch":     func(m *routev1.Route) { m.Epoch = 0 },
		"placement": func(m *routev1.Route) { m.Placement = nil },
		"pod":       func(m *routev1.Route) { m.Placement.PodUid = "x" },
	} {
		m := peer.RouteMessage(route())
		change(m)
		order := &controlv1.EnsureExecution{Route: m, Template: space.NewID(space.PrefixTemplate)}
		if _, err := r.host.EnsureExecution(t.Context(), connect.NewRequest(&hostv1.EnsureExecutionRequest{Order: order})); code(err) != space.CodeInvalid {
			t.Errorf("%s: ensure: %v", name, err)
		}
		if _, err := r.host.RemoveExecution(t.Context(), connect.NewRequest(&hostv1.RemoveExecutionRequest{Route: m})); code(err) != space.CodeInvalid {
			t.Errorf("%s: remove: %v", name, err)
		}
		if err := r.attach(t, &sessionv1.AttachRequest{Route: m, Session: space.NewID(space.PrefixSession), Spec: &sessionv1.Spec{Argv: []string{"x"}}}); code(err) != space.CodeInvalid {
			t.Errorf("%s: attach: %v", name, err)
		}
	}
}

// attach returns the error of a stream that ends before its first event.
func (r *rig) attach(t *testing.T, m *sessionv1.AttachRequest) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := r.sessions.Attach(ctx, connect.NewRequest(m))
	if err != nil {
		return err
	}
	defer stream.Close()
	if stream.Receive() {
		return nil
	}
	return stream.Err()
}

func TestSessionsAreChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, c := range map[string]struct {
		change func(*sessionv1.AttachRequest)
		want   space.Code
	}{
		"good":      {func(*sessionv1.AttachRequest) {}, ""},
		"id":        {func(m *sessionv1.AttachRequest) { m.Session = "ses_../../x" }, space.CodeInvalid},
		"no argv":   {func(m *sessionv1.AttachRequest) { m.Spec.Argv = nil }, space.CodeInvalid},
		"no spec":   {func(m *sessionv1.AttachRequest) { m.Spec = nil }, ""}, // it's to be read
		"long argv": {func(m *sessionv1.AttachRequest) { m.Spec.Argv[0] = strings.Repeat("x", maxCommand) }, space.CodeTooLarge},
		"terminal":  {func(m *sessionv1.AttachRequest) { m.Spec.Tty = &sessionv1.Terminal{Rows: 24} }, space.CodeInvalid},
		"timeout":   {func(m *sessionv1.AttachRequest) { m.Spec.Timeout = durationpb.New(-1) }, space.CodeInvalid},
		"stdin":     {func(m *sessionv1.AttachRequest) { m.Spec.Stdin = make([]byte, maxStdin+1) }, space.CodeTooLarge},
	} {
		m := &sessionv1.AttachRequest{
			Route: peer.RouteMessage(route()), Session: space.NewID(space.PrefixSession), Spec: &sessionv1.Spec{Argv: []string{"x"}}, FromOffset: 7,
		}
		c.change(m)
		if err := r.attach(t, m); code(err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if len(r.attached) != 2 || r.attached[0].From != 7 || r.attached[1].From != 7 {
		t.Errorf("attached %+v", r.attached)
	}
}

func TestWatchTellsTheWholeStatusAfterEachChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := r.host.Watch(ctx, connect.NewRequest(&hostv1.WatchRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if !stream.Receive() || len(stream.Msg().GetExecutions()) != 0 || stream.Msg().GetFacts().GetDriver() != "test" {
		t.Fatalf("the first status is %v, %v", stream.Msg(), stream.Err())
	}
	if ts := stream.Msg().GetTemplates(); len(ts) != 2 || ts[0].GetShape().GetDiskBytes() != 3 || ts[1].GetError().GetCode() != "internal" || ts[1].GetShape() != nil {
		t.Errorf("the templates are %v", ts)
	}
	r.mu.Lock()
	r.reports = []execution.Report{{Route: route(), State: space.ExecutionLost, Err: space.Errorf(space.CodeExecutionLost, "gone")}}
	r.mu.Unlock()
	r.changes.Notify()
	if !stream.Receive() || stream.Msg().GetExecutions()[0].GetError().GetCode() != "execution_lost" {
		t.Fatalf("the second status is %v, %v", stream.Msg(), stream.Err())
	}
	r.stop()
	for stream.Receive() {
	}
	if stream.Err() != nil {
		t.Errorf("the stream ended with %v", stream.Err())
	}
}

// TestAnEarlierLifeBeginsNothing: once a life of the manager has been told what there is, nothing comes to be that an earlier one has asked for.
func TestAnEarlierLifeBeginsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ensure := func(life uint64) error {
		_, err := r.host.EnsureExecution(t.Context(), connect.NewRequest(&hostv1.EnsureExecutionRequest{Life: life, Order: &controlv1.EnsureExecution{
			Route: peer.RouteMessage(route()), Template: space.NewID(space.PrefixTemplate),
		}}))
		return err
	}
	if err := ensure(1); err != nil {
		t.Fatalf("before anybody listens: %v", err)
	}
	for _, life := range []uint64{2, 1} { // that of 1 is late
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		stream, err := r.host.Watch(ctx, connect.NewRequest(&hostv1.WatchRequest{Life: life}))
		if err != nil || !stream.Receive() {
			t.Fatal(err, stream.Err())
		}
		defer stream.Close()
	}
	if err := ensure(1); code(err) != space.CodeConflict {
		t.Errorf("an earlier life: %v, want a conflict", err)
	}
	for _, life := range []uint64{2, 3} {
		if err := ensure(life); err != nil {
			t.Errorf("life %d: %v", life, err)
		}
	}
}

func TestStoppingServerLetsStreamsSayGoodbye(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stream, err := r.sessions.Attach(t.Context(), connect.NewRequest(&sessionv1.AttachRequest{
		Route: peer.RouteMessage(route()), Session: space.NewID(space.PrefixSession), Spec: &sessionv1.Spec{Argv: []string{"x"}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	r.stop()
	if !stream.Receive() || stream.Msg().GetEnded().GetReason() != "shutting_down" {
		t.Errorf("the last event is %v, %v", stream.Msg(), stream.Err())
	}
}

// ends of no session.
type ends struct{}

func (ends) Untold() []*controlv1.SessionEnd { return nil }
func (ends) Acknowledge([]string)            {}
