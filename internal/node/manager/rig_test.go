package manager

import (
	"context"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/api/gen/host/v1/hostv1connect"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/api/gen/sandbox/v1/sandboxv1connect"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/gen/session/v1/sessionv1connect"
	uploadv1 "github.com/space-platform/space/api/gen/upload/v1"
	"github.com/space-platform/space/api/gen/upload/v1/uploadv1connect"
	"github.com/space-platform/space/internal/node/api"
	"github.com/space-platform/space/internal/node/relay"
	"github.com/space-platform/space/internal/peer"
)

const (
	nodeName = "here"
	// waitLimit bounds a wait for what comes at once on a quiet machine. It's less than a hanging call lasts, which so can't bring it.
	waitLimit = maxHang
	onSocket  = "http://socket"
)

// TestMain lets all tests run at once: they wait more than they work.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "32")
	os.Exit(m.Run())
}

// signal is a broadcast: whoever waits for a condition looks again after each ring.
type signal struct {
	sync.Mutex
	rung chan struct{}
}

func newSignal() *signal { return &signal{rung: make(chan struct{})} }

// ring is called with the lock held.
func (s *signal) ring() {
	close(s.rung)
	s.rung = make(chan struct{})
}

// until waits for a condition, which is called with the lock held.
func (s *signal) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	late := time.After(waitLimit)
	for {
		s.Lock()
		ok, rung := holds(), s.rung
		s.Unlock()
		if ok {
			return
		}
		select {
		case <-rung:
		case <-late:
			t.Fatalf("no sign of: %s", what)
		}
	}
}

// fakeHost is a spaced-host whose machines are entries of a map. Unlike the real one it would make a removed execution again, so that
// whoever asks for that is caught.
type fakeHost struct {
	*signal
	machines  map[string]*controlv1.ExecutionReport
	templates map[string]*controlv1.TemplateReport
	created   map[string]int // by execution
	removed   map[string]int
	stopping  map[string]int
	graceful  bool // processes have a long grace: a machine that was told to stop doesn't yet
	builds    map[string]int
	orders    map[string]*controlv1.EnsureExecution // as they came, by execution
	templated map[string]*controlv1.EnsureTemplate
	ends      []*controlv1.SessionEnd
	told      []string // sessions whose ends were acknowledged
	uploads   []*controlv1.UploadReport
	received  map[string]uint64 // the newest acknowledged lines of logs, by template
	call      func(context.Context, *connect.BidiStream[sandboxv1.CallRequest, sandboxv1.CallResponse]) error
	put       func(context.Context, *connect.ClientStream[uploadv1.PutRequest]) (*uploadv1.PutResponse, error)
	refuse    map[string]error // by execution, template or snapshot
	snapshots map[string]*controlv1.SnapshotReport

	turns      []string        // pauses, resumes and suspends, as they came
	fails      map[string]bool // snapshots that can't be made
	taken      map[string]int
	suspendErr error // refuses every suspend
	// at is called without the lock before and after each effect; it may wait.
	at func(ctx context.Context, step, id string)
}

func newHost() *fakeHost {
	return &fakeHost{signal: newSignal(), machines: map[string]*controlv1.ExecutionReport{}, templates: map[string]*controlv1.TemplateReport{},
		created: map[string]int{}, removed: map[string]int{}, stopping: map[string]int{}, builds: map[string]int{}, snapshots: map[string]*controlv1.SnapshotReport{}, fails: map[string]bool{}, taken: map[string]int{}, refuse: map[string]error{},
		orders: map[string]*controlv1.EnsureExecution{}, templated: map[string]*controlv1.EnsureTemplate{}}
}

func (h *fakeHost) step(ctx context.Context, step, id string) {
	h.Lock()
	at := h.at
	h.Unlock()
	if at != nil {
		at(ctx, step, id)
	}
}

func (h *fakeHost) EnsureExecution(ctx context.Context, req *connect.Request[hostv1.EnsureExecutionRequest]) (*connect.Response[hostv1.EnsureExecutionResponse], error) {
	id := req.Msg.GetOrder().GetRoute().GetExecution()
	h.step(ctx, "before ensure", id)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	h.Lock()
	if err := h.refuse[id]; err != nil {
		h.Unlock()
		return nil, peer.ToConnect(err)
	}
	h.orders[id] = req.Msg.GetOrder()
	if h.machines[id] == nil {
		h.created[id]++
		h.machines[id] = &controlv1.ExecutionReport{Route: req.Msg.GetOrder().GetRoute(), State: string(space.ExecutionRunning)}
		h.ring()
	}
	h.Unlock()
	h.step(ctx, "after ensure", id)
	return connect.NewResponse(&hostv1.EnsureExecutionResponse{}), nil
}

func (h *fakeHost) RemoveExecution(ctx context.Context, req *connect.Request[hostv1.RemoveExecutionRequest]) (*connect.Response[hostv1.RemoveExecutionResponse], error) {
	id := req.Msg.GetRoute().GetExecution()
	h.step(ctx, "before remove", id)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	h.Lock()
	h.removed[id]++
	delete(h.machines, id)
	h.ring()
	h.Unlock()
	h.step(ctx, "after remove", id)
	return connect.NewResponse(&hostv1.RemoveExecutionResponse{}), nil
}

func (h *fakeHost) EnsureTemplate(_ context.Context, req *connect.Request[hostv1.EnsureTemplateRequest]) (*connect.Response[hostv1.EnsureTemplateResponse], error) {
	h.Lock()
	defer h.Unlock()
	id := req.Msg.GetOrder().GetTemplate()
	if err := h.refuse[id]; err != nil {
		return nil, peer.ToConnect(err)
	}
	h.builds[id]++
	h.templated[id] = req.Msg.GetOrder()
	h.templates[id] = &controlv1.TemplateReport{Template: id, State: templateBuilding}
	h.ring()
	return connect.NewResponse(&hostv1.EnsureTemplateResponse{}), nil
}

func (h *fakeHost) StopExecution(ctx context.Context, req *connect.Request[hostv1.StopExecutionRequest]) (*connect.Response[hostv1.StopExecutionResponse], error) {
	route := req.Msg.GetOrder().GetRoute()
	h.step(ctx, "before stop", route.GetExecution())
	h.Lock()
	defer h.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if h.machines[route.GetExecution()] == nil {
		return nil, peer.ToConnect(space.Errorf(space.CodeNotFound, "no such execution"))
	}
	h.stopping[route.GetExecution()]++
	if !h.graceful {
		h.machines[route.GetExecution()] = &controlv1.ExecutionReport{Route: route, State: string(space.ExecutionStopped)}
	}
	h.ring()
	return connect.NewResponse(&hostv1.StopExecutionResponse{}), nil
}

func (h *fakeHost) RemoveTemplate(_ context.Context, req *connect.Request[hostv1.RemoveTemplateRequest]) (*connect.Response[hostv1.RemoveTemplateResponse], error) {
	h.Lock()
	defer h.Unlock()
	id := req.Msg.GetOrder().GetTemplate()
	h.removed[id]++
	h.ring()
	if err := h.refuse[id]; err != nil {
		return nil, peer.ToConnect(err)
	}
	delete(h.templates, id)
	return connect.NewResponse(&hostv1.RemoveTemplateResponse{}), nil
}

func (h *fakeHost) Acknowledge(_ context.Context, req *connect.Request[hostv1.AcknowledgeRequest]) (*connect.Response[hostv1.AcknowledgeResponse], error) {
	h.Lock()
	defer h.Unlock()
	h.received, h.told = req.Msg.GetLogLines(), req.Msg.GetSessionEnds()
	for _, id := range req.Msg.GetUnwantedUploads() {
		h.uploads = slices.DeleteFunc(h.uploads, func(u *controlv1.UploadReport) bool { return u.GetUpload() == id })
	}
	h.ring()
	return connect.NewResponse(&hostv1.AcknowledgeResponse{}), nil
}

func (h *fakeHost) Call(ctx context.Context, stream *connect.BidiStream[sandboxv1.CallRequest, sandboxv1.CallResponse]) error {
	h.Lock()
	call := h.call
	h.Unlock()
	return peer.ToConnect(call(ctx, stream))
}

func (h *fakeHost) Put(ctx context.Context, stream *connect.ClientStream[uploadv1.PutRequest]) (*connect.Response[uploadv1.PutResponse], error) {
	h.Lock()
	put := h.put
	h.Unlock()
	resp, err := put(ctx, stream)
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	return connect.NewResponse(resp), nil
}

func (h *fakeHost) Watch(ctx context.Context, _ *connect.Request[hostv1.WatchRequest], out *connect.ServerStream[hostv1.WatchResponse]) error {
	for {
		h.Lock()
		m, rung := &hostv1.WatchResponse{Facts: &controlv1.NodeFacts{Driver: "fake", Cpus: 2}, SessionEnds: h.ends, Uploads: slices.Clone(h.uploads)}, h.rung
		for _, r := range h.machines {
			m.Executions = append(m.Executions, r)
		}
		for _, r := range h.snapshots {
			m.Snapshots = append(m.Snapshots, r)
		}
		for _, r := range h.templates {
			m.Templates = append(m.Templates, r)
		}
		h.Unlock()
		if err := out.Send(m); err != nil {
			return err
		}
		select {
		case <-rung:
		case <-ctx.Done():
			return nil
		}
	}
}

// Attach says that the session has started, and ends when the machine does, after what was still to come. Nothing starts in a machine that has ended.
func (h *fakeHost) Attach(ctx context.Context, req *connect.Request[sessionv1.AttachRequest], out *connect.ServerStream[sessionv1.AttachResponse]) error {
	id := req.Msg.GetRoute().GetExecution()
	for began := false; ; began = true {
		h.Lock()
		r, rung := h.machines[id], h.rung
		h.Unlock()
		last := lastOf(r)
		switch {
		case !began && last != nil:
			return peer.ToConnect(space.Errorf(space.CodeConflict, "the machine has ended"))
		case !began:
			if err := out.Send(&sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Started{Started: &sessionv1.Started{}}}); err != nil {
				return err
			}
		case last != nil:
			h.step(ctx, "last words", id)
			if ctx.Err() != nil {
				return nil
			}
			out.Send(&sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Output{Output: &sessionv1.Output{Data: []byte("last words")}}})
			return out.Send(last)
		}
		select {
		case <-rung:
		case <-ctx.Done():
			return nil
		}
	}
}

// lastOf is the last event of the sessions of a machine that has ended; nil for one that runs, or ended without a word.
func lastOf(r *controlv1.ExecutionReport) *sessionv1.AttachResponse {
	switch {
	case r == nil:
		return relay.LostEvent(space.Errorf(space.CodeExecutionLost, "the machine was removed"))
	case r.GetState() == string(space.ExecutionLost):
		return relay.LostEvent(space.Errorf(space.CodeExecutionLost, "killed"))
	case r.GetState() == string(space.ExecutionStopped):
		return &sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Exit{Exit: &sessionv1.Exit{Code: 7, Stopped: true}}}
	}
	return nil
}

// kill is the death of a machine's VMM.
func (h *fakeHost) kill(id string) {
	h.Lock()
	defer h.Unlock()
	old := h.machines[id]
	h.machines[id] = &controlv1.ExecutionReport{Route: old.GetRoute(), State: string(space.ExecutionLost),
		Error: peer.ErrorMessage(space.Errorf(space.CodeExecutionLost, "the machine's process was killed"))}
	h.ring()
}

// fakeControl wants executions and orders what the reports lack, as the real one does: a newer call ends the one before it. Unlike the
// real one it lets a call that may hang do so until there's something to say, so that no test passes only because a call came to its end.
type fakeControl struct {
	controlv1connect.UnimplementedControlServiceHandler
	*signal
	run    map[string]*controlv1.EnsureExecution // wanted to run, by execution
	remove map[string]space.Route                // wanted to be removed
	build  map[string]*controlv1.EnsureTemplate
	raw    []*controlv1.Order // given once, whatever is reported
	ends   []string           // sessions whose ends are said to be received, as logs
	logs   map[string]uint64  // said to be received, in each answer that has orders
	last   *controlv1.SynchronizeRequest
	calls  int
}

func newControl() *fakeControl {
	return &fakeControl{signal: newSignal(), run: map[string]*controlv1.EnsureExecution{}, remove: map[string]space.Route{}, build: map[string]*controlv1.EnsureTemplate{}}
}

func (c *fakeControl) Synchronize(ctx context.Context, req *connect.Request[controlv1.SynchronizeRequest]) (*connect.Response[controlv1.SynchronizeResponse], error) {
	c.Lock()
	c.calls++
	mine := c.calls
	c.last = req.Msg
	c.ring()
	for {
		if c.calls != mine {
			c.Unlock()
			return nil, peer.ToConnect(space.Errorf(space.CodeConflict, "a newer call took over"))
		}
		orders, rung := c.orders(req.Msg), c.rung
		c.Unlock()
		if len(orders) > 0 || req.Msg.GetMaxHang() == nil {
			c.Lock()
			logs, ends := c.logs, c.ends
			c.Unlock()
			return connect.NewResponse(&controlv1.SynchronizeResponse{Orders: orders, LogsReceived: logs, SessionEndsReceived: ends}), nil
		}
		select {
		case <-rung:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		c.Lock()
	}
}

func (c *fakeControl) orders(m *controlv1.SynchronizeRequest) []*controlv1.Order {
	out := c.raw
	c.raw = nil
	if !m.GetComplete() {
		return out
	}
	for id, r := range c.remove {
		if reported(m, id) != nil {
			out = append(out, removeOrder(r))
		}
	}
	for id, o := range c.run {
		if reported(m, id) == nil {
			out = append(out, &controlv1.Order{Order: &controlv1.Order_EnsureExecution{EnsureExecution: o}})
		}
	}
	for id, o := range c.build {
		if reportedTemplate(m, id) == nil {
			out = append(out, &controlv1.Order{Order: &controlv1.Order_EnsureTemplate{EnsureTemplate: o}})
		}
	}
	return out
}

func removeOrder(r space.Route) *controlv1.Order {
	return &controlv1.Order{Order: &controlv1.Order_RemoveExecution{RemoveExecution: &controlv1.RemoveExecution{Route: peer.RouteMessage(r)}}}
}

func stopOrder(r space.Route) *controlv1.Order {
	return &controlv1.Order{Order: &controlv1.Order_StopExecution{StopExecution: &controlv1.StopExecution{Route: peer.RouteMessage(r)}}}
}

func dropOrder(template string) *controlv1.Order {
	return &controlv1.Order{Order: &controlv1.Order_RemoveTemplate{RemoveTemplate: &controlv1.RemoveTemplate{Template: template}}}
}

func ensureOrder(r space.Route) *controlv1.Order {
	return &controlv1.Order{Order: &controlv1.Order_EnsureExecution{EnsureExecution: ensureMessage(r)}}
}

func ensureMessage(r space.Route) *controlv1.EnsureExecution {
	return &controlv1.EnsureExecution{Route: peer.RouteMessage(r), Template: testTemplate, Shape: &controlv1.Shape{Vcpus: 1}}
}

func reported(m *controlv1.SynchronizeRequest, id string) *controlv1.ExecutionReport {
	for _, e := range m.GetExecutions() {
		if e.GetRoute().GetExecution() == id {
			return e
		}
	}
	return nil
}

func reportedTemplate(m *controlv1.SynchronizeRequest, id string) *controlv1.TemplateReport {
	for _, r := range m.GetTemplates() {
		if r.GetTemplate() == id {
			return r
		}
	}
	return nil
}

// want has an execution run.
func (c *fakeControl) want(r space.Route) {
	c.Lock()
	defer c.Unlock()
	c.run[r.Execution] = ensureMessage(r)
	c.ring()
}

// unwant has an execution removed.
func (c *fakeControl) unwant(r space.Route) {
	c.Lock()
	defer c.Unlock()
	delete(c.run, r.Execution)
	c.remove[r.Execution] = r
	c.ring()
}

// send gives orders whatever is reported.
func (c *fakeControl) send(orders ...*controlv1.Order) {
	c.Lock()
	defer c.Unlock()
	c.raw = append(c.raw, orders...)
	c.ring()
}

// hears waits until an execution is reported in a state; "" for absent from a complete report.
func (c *fakeControl) hears(t *testing.T, r space.Route, state space.ExecutionState) *controlv1.ExecutionReport {
	t.Helper()
	var got *controlv1.ExecutionReport
	c.until(t, string(state)+" of "+r.Execution+" in a report", func() bool {
		got = reported(c.last, r.Execution)
		if state == "" {
			return c.last.GetComplete() && got == nil
		}
		return space.ExecutionState(got.GetState()) == state
	})
	return got
}

var testTemplate = space.NewID(space.PrefixTemplate)

func newRoute() space.Route {
	return space.Route{Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: 1,
		Placement: space.Placement{Kind: space.PlacementNode, Node: nodeName}}
}

// rig is a node in the middle of a real chain of unix sockets: client → node-api → manager → host, and manager → node-api → control.
type rig struct {
	dir      string
	host     *fakeHost
	control  *fakeControl
	sessions sessionv1connect.SessionServiceClient // as the edge has them
	boxes    sandboxv1connect.SandboxServiceClient
	uploads  uploadv1connect.UploadServiceClient
	manager  *Manager
	stop     func() // the manager, as when it's killed: nothing more is done or written
	cutHost  func()
	cutCtl   func()
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel() // a server takes a second to say goodbye
	r := &rig{dir: t.TempDir(), host: newHost(), control: newControl()}
	r.serveControl(t)
	r.serveHost(t)
	manager, door := peer.Client(r.path("manager"), 0), peer.Client(r.path("door"), 0)
	r.serve(t, "door", api.NewHandler(api.Config{
		Node:      nodeName,
		Control:   controlv1connect.NewControlServiceClient(peer.Client(r.path("control"), 0), onSocket, peer.ClientOptions(api.MaxReportBytes)),
		Manager:   sessionv1connect.NewSessionServiceClient(manager, onSocket, peer.ClientOptions(relay.MaxEventBytes)),
		Sandboxes: sandboxv1connect.NewSandboxServiceClient(manager, onSocket, peer.ClientOptions(relay.MaxResultBytes)),
		Uploads:   uploadv1connect.NewUploadServiceClient(manager, onSocket, peer.ClientOptions(relay.MaxCallBytes)),
	}))
	r.sessions = sessionv1connect.NewSessionServiceClient(door, onSocket, peer.ClientOptions(relay.MaxEventBytes))
	r.boxes = sandboxv1connect.NewSandboxServiceClient(door, onSocket, peer.ClientOptions(relay.MaxResultBytes))
	r.uploads = uploadv1connect.NewUploadServiceClient(door, onSocket, peer.ClientOptions(relay.MaxCallBytes))
	r.start(t)
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name+".sock") }

func (r *rig) serveControl(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(controlv1connect.NewControlServiceHandler(r.control))
	r.cutCtl = r.listen(t, "control", mux)
}

func (r *rig) serveHost(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(hostv1connect.NewHostServiceHandler(r.host))
	mux.Handle(sessionv1connect.NewSessionServiceHandler(r.host))
	mux.Handle(sandboxv1connect.NewSandboxServiceHandler(r.host))
	mux.Handle(uploadv1connect.NewUploadServiceHandler(r.host))
	r.cutHost = r.listen(t, "host", mux)
}

// listen serves until the test ends or the returned function is called; then every request is cut, as when the process is killed.
func (r *rig) listen(t *testing.T, name string, h http.Handler) (cut func()) {
	t.Helper()
	l, err := peer.Listen(r.path(name), 0)
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
	return cut
}

// serve serves as a role does, until the test ends or the returned function is called; then requests may say goodbye.
func (r *rig) serve(t *testing.T, name string, h http.Handler) (stop func()) {
	t.Helper()
	l, err := peer.Listen(r.path(name), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := peer.Serve(ctx, l, h); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// start opens the records, which an earlier manager may have left, and runs a manager.
func (r *rig) start(t *testing.T) {
	t.Helper()
	door, host := peer.Client(r.path("door"), 0), peer.Client(r.path("host"), 0)
	m, err := Open(Config{
		Node: nodeName, Records: filepath.Join(r.dir, "records.db"),
		Control:   controlv1connect.NewControlServiceClient(door, onSocket, peer.ClientOptions(MaxReportBytes)),
		Host:      hostv1connect.NewHostServiceClient(host, onSocket, peer.ClientOptions(MaxReportBytes)),
		Sessions:  sessionv1connect.NewSessionServiceClient(host, onSocket, peer.ClientOptions(relay.MaxEventBytes)),
		Sandboxes: sandboxv1connect.NewSandboxServiceClient(host, onSocket, peer.ClientOptions(relay.MaxResultBytes)),
		Uploads:   uploadv1connect.NewUploadServiceClient(host, onSocket, peer.ClientOptions(relay.MaxCallBytes)),
	})
	if err != nil {
		t.Fatal(err)
	}
	m.timing.workMost, m.timing.watchMost, m.timing.talkMost = 300*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	r.manager = m
	stopServing := r.serve(t, "manager", m.Handler())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			<-done
			stopServing()
			m.Close()
		})
	}
	t.Cleanup(r.stop)
}

func (r *rig) restart(t *testing.T) {
	t.Helper()
	r.stop()
	r.start(t)
}

// running has an execution wanted and waits until it's reported to run.
func (r *rig) running(t *testing.T) space.Route {
	t.Helper()
	route := newRoute()
	r.control.want(route)
	r.control.hears(t, route, space.ExecutionRunning)
	return route
}

// attach opens a stream through the door and returns its events. Hundreds may be opened one after the other, so each may last longer than
// a single wait.
func (r *rig) attach(t *testing.T, route space.Route) *connect.ServerStreamForClient[sessionv1.AttachResponse] {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*waitLimit)
	t.Cleanup(cancel)
	s, err := r.sessions.Attach(ctx, connect.NewRequest(attachRequest(route)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func attachRequest(route space.Route) *sessionv1.AttachRequest {
	return &sessionv1.AttachRequest{Route: peer.RouteMessage(route), Session: space.NewID(space.PrefixSession), Spec: &sessionv1.Spec{Argv: []string{"true"}}}
}

// again has a condition of the host looked at again soon, for what nobody rings. It's false.
func (r *rig) again() bool {
	time.AfterFunc(5*time.Millisecond, func() {
		r.host.Lock()
		defer r.host.Unlock()
		r.host.ring()
	})
	return false
}

// forgotten waits until a tombstone is gone. The manager has nothing to say about that, so the table is asked.
func (r *rig) forgotten(t *testing.T, route space.Route) {
	t.Helper()
	r.control.until(t, "the end of the tombstone of "+route.Execution, func() bool {
		r.manager.table.mu.Lock()
		defer r.manager.table.mu.Unlock()
		_, there := r.manager.table.records[route.Execution]
		return !there
	})
}
