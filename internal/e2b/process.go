package e2b

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/gen/e2b/process"
	"github.com/space-platform/space/api/gen/e2b/process/processconnect"
	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

const (
	// keepAlive is how often a silent stream says that it lives, if the client doesn't say.
	keepAlive = 90 * time.Second
	// A call that has a deadline is answered a little before: a client whose own timer is first shows its user the transport's error. It's a twentieth of
	// the whole time within these limits.
	leastMargin, mostMargin = 50 * time.Millisecond, 500 * time.Millisecond
	// killGrace is after how long beyond a command's deadline the platform ends it, if this process couldn't.
	killGrace = 5 * time.Second
	// killTime bounds the ending of a command whose time is over.
	killTime = 10 * time.Second
)

// processService serves processes. The two streams of events have a message of their own, see event.
type processService struct {
	processconnect.UnimplementedProcessHandler
	f *Facade
}

// sendEvent sends one event of a process.
type sendEvent func(*event) error

// startStream serves Start.
func (s processService) startStream(ctx context.Context, r *connect.Request[process.StartRequest], out *connect.ServerStream[event]) error {
	g := guestOf(ctx)
	ctx, cancel := early(ctx)
	defer cancel()
	return g.refusal(ctx, s.start(ctx, g, r.Msg, r.Header(), out.Send))
}

// connectStream serves Connect.
func (s processService) connectStream(ctx context.Context, r *connect.Request[process.ConnectRequest], out *connect.ServerStream[event]) error {
	g := guestOf(ctx)
	ctx, cancel := early(ctx)
	defer cancel()
	return g.refusal(ctx, s.connect(ctx, g, r.Msg, r.Header(), out.Send))
}

// early ends a call before its client's timer does.
func early(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	margin := min(max(time.Until(deadline)/20, leastMargin), mostMargin)
	return context.WithDeadline(ctx, deadline.Add(-margin))
}

func (s processService) start(ctx context.Context, g guest, in *process.StartRequest, header http.Header, send sendEvent) error {
	create, err := g.command(ctx, in)
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		seconds := int((time.Until(deadline) + killGrace) / time.Second)
		create.TimeoutSeconds = &seconds
	}
	p := &runningProcess{tty: create.Tty != nil}
	st := stream{g: g, process: p, started: func(pid uint32) { s.f.processes.add(processKey{g.sandbox, pid}, p) }, keepAlive: interval(header), send: send}
	err = st.run(ctx, g.plane.Run(ctx, create, client.Encoded()))
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		s.kill(ctx, g, p)
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("the command's time is over"))
	}
	return err
}

// kill ends a command whose time is over. If that fails, or isn't possible since it isn't known to have begun, the platform does it later.
func (s processService) kill(ctx context.Context, g guest, p *runningProcess) {
	if p.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	_ = g.plane.Signal(ctx, p.session, "SIGKILL")
}

// command is the session that runs what an SDK asks for.
func (g guest) command(ctx context.Context, in *process.StartRequest) (client.SessionCreate, error) {
	config := in.GetProcess()
	if config.GetCmd() == "" {
		return client.SessionCreate{}, connect.NewError(connect.CodeInvalidArgument, errors.New("process.cmd is required"))
	}
	if in.Tag != nil {
		return client.SessionCreate{}, connect.NewError(connect.CodeUnimplemented, errors.New("tags of processes aren't kept here: a process is known by its pid"))
	}
	argv := append([]string{config.GetCmd()}, config.GetArgs()...)
	env := map[string]string{"E2B_SANDBOX": "true", "E2B_SANDBOX_ID": publicID(g.sandbox)}
	for name, value := range config.GetEnvs() {
		env[name] = value
	}
	out := client.SessionCreate{Argv: &argv, Env: &env}
	if g.user != "" {
		out.User = &g.user
	}
	if cwd := config.GetCwd(); cwd != "" {
		absolute, err := g.directory(ctx, cwd)
		if err != nil {
			return out, err
		}
		out.Cwd = &absolute
	}
	open := in.Stdin == nil || in.GetStdin()
	if size := in.GetPty().GetSize(); in.Pty != nil {
		out.Tty = &client.TerminalSize{Rows: int(size.GetRows()), Cols: int(size.GetCols())}
	} else if open {
		out.OpenStdin = &open
	}
	return out, nil
}

// directory is a directory's absolute path. That an absolute one is there shows when the command starts.
func (g guest) directory(ctx context.Context, p string) (string, error) {
	if strings.HasPrefix(p, "/") {
		return p, nil
	}
	e, err := g.follow(ctx, inGuest(p))
	switch {
	case is(err, space.CodeNotFound), err == nil && e.Type != api.FileEntryTypeDirectory:
		return "", connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("cwd %q isn't a directory", space.Clip(p)))
	case err != nil:
		return "", err
	}
	return e.Path, nil
}

func (s processService) connect(ctx context.Context, g guest, in *process.ConnectRequest, header http.Header, send sendEvent) error {
	k, p, err := s.f.find(ctx, g, in.GetProcess())
	if err != nil {
		return err
	}
	offset, err := g.outputNow(ctx, p.session)
	if is(err, space.CodeNotFound) {
		s.f.processes.drop(k, p)
		return noProcess(k.pid)
	}
	if err != nil {
		return err
	}
	if err := send(startEvent(k.pid)); err != nil {
		return err
	}
	st := stream{g: g, process: p, started: func(uint32) {}, keepAlive: interval(header), send: send, joined: true}
	err = st.run(ctx, g.plane.Attach(ctx, p.session, client.FromOffset(offset), client.Encoded()))
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("the time of this connection is over"))
	}
	return err
}

// outputNow is how long a session's output is: who connects later sees what comes after. Of one that has ended the end remains.
func (g guest) outputNow(ctx context.Context, session string) (int64, error) {
	live, err := g.plane.LiveSessions(ctx)
	if err != nil {
		return 0, err
	}
	for _, s := range live {
		if s.Id == session {
			return s.OutputBytes, nil
		}
	}
	return 0, &client.Error{Code: string(space.CodeNotFound), Detail: "the process isn't there any more"}
}

// interval is how often a silent stream is to say that it lives.
func interval(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Keepalive-Ping-Interval"))
	if err != nil || n < 1 || n > 3600 {
		return keepAlive
	}
	return time.Duration(n) * time.Second
}

// stream tells a client of one process.
type stream struct {
	g         guest
	process   *runningProcess
	started   func(pid uint32) // called once, before the client is told
	keepAlive time.Duration
	send      sendEvent
	joined    bool // the client was told the pid
}

// run passes events on until the process has ended.
func (s *stream) run(ctx context.Context, events iter.Seq2[client.Event, error]) error {
	defer streaming(streamProcess)()
	quiet := s.fill()
	defer quiet.stop()
	for e, err := range events {
		ended, err := s.pass(e, err)
		if ended || err != nil {
			return err
		}
		quiet.timer.Reset(s.keepAlive)
	}
	return ctx.Err()
}

// silence is what sends keep-alives between the events.
type silence struct {
	timer *time.Timer
	mu    sync.Mutex // held by who sends
	over  bool
}

// fill sends a keep-alive whenever nothing was sent for as long. One that can't be sent is no matter: then the events can't either.
func (s *stream) fill() *silence {
	q := &silence{}
	send := s.send
	s.send = func(e *event) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		return send(e)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timer = time.AfterFunc(s.keepAlive, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.over {
			return
		}
		_ = send(&event{ProcessEvent: &process.ProcessEvent{Event: &process.ProcessEvent_Keepalive{Keepalive: &process.ProcessEvent_KeepAlive{}}}})
		q.timer.Reset(s.keepAlive)
	})
	return q
}

// stop returns when nothing is sent any more.
func (q *silence) stop() {
	q.timer.Stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
}

// pass passes an event on, or says why there are no more.
func (s *stream) pass(e client.Event, why error) (ended bool, err error) {
	switch {
	case why != nil:
		return true, why
	case e.Type == client.EventCreated:
		s.process.session = e.Created.Session.Id
	case e.Type == client.EventStarted && e.PID == 0: // what follows says whether there is a process: one that couldn't be started has none
	case e.Type == client.EventStarted:
		return false, s.start(e.PID)
	case e.Type == client.EventStdout, e.Type == client.EventStderr:
		if err := s.start(0); err != nil {
			return false, err
		}
		return false, s.send(s.data(e))
	case e.Type == client.EventLost:
		return true, gone(publicID(s.g.sandbox))
	case e.Type == client.EventExit && e.Exit.Error != "" && !s.joined:
		return true, cannotStart(e.Exit.Error)
	case e.Type == client.EventExit:
		if err := s.start(0); err != nil {
			return true, err
		}
		if s.g.answer != nil {
			s.g.answer.ends.Store(true) // nothing but the stream's end follows, at once
		}
		return true, s.send(end(e.Exit))
	}
	return false, nil // a gap: nobody was attached, and what was dropped is older than what is of interest
}

// cannotStart says why there is no process.
func cannotStart(why string) error {
	code := connect.CodeInvalidArgument
	if strings.HasPrefix(why, "user ") { // as the guest says of one that it doesn't have
		code = connect.CodeUnauthenticated
	}
	return connect.NewError(code, errors.New(why))
}

// start tells the client the pid, unless it was told one; 0 for one that isn't known.
func (s *stream) start(pid int64) error {
	if s.joined {
		return nil
	}
	s.joined = true
	if pid != 0 {
		s.started(uint32(pid))
	}
	return s.send(startEvent(uint32(pid)))
}

func startEvent(pid uint32) *event {
	return &event{ProcessEvent: &process.ProcessEvent{Event: &process.ProcessEvent_Start{Start: &process.ProcessEvent_StartEvent{Pid: pid}}}}
}

func (s *stream) data(e client.Event) *event {
	out := &event{kind: kindStdout, data: e.Data, encoded: e.Encoded}
	switch {
	case s.process.tty:
		out.kind = kindPty
	case e.Type == client.EventStderr:
		out.kind = kindStderr
	}
	return out
}

// end is how a process ended, in the words of E2B's agent.
func end(x client.Exit) *event {
	e := &process.ProcessEvent_EndEvent{ExitCode: int32(x.Code), Exited: true, Status: "exit status " + strconv.Itoa(x.Code)}
	if x.Signal != "" {
		e.ExitCode, e.Exited, e.Status = -1, false, "signal: "+signalWord(x.Signal)
	}
	if x.Code != 0 || x.Signal != "" {
		e.Error = &e.Status
	}
	if x.Error != "" {
		e.Error = &x.Error
	}
	return &event{ProcessEvent: &process.ProcessEvent{Event: &process.ProcessEvent_End{End: e}}}
}

// signalWords are Linux's words for the signals that end most processes.
var signalWords = map[string]string{
	"SIGKILL": "killed", "SIGTERM": "terminated", "SIGINT": "interrupt", "SIGHUP": "hangup", "SIGQUIT": "quit", "SIGSEGV": "segmentation fault",
	"SIGABRT": "aborted", "SIGPIPE": "broken pipe",
}

func signalWord(name string) string {
	if w, ok := signalWords[name]; ok {
		return w
	}
	return strings.ToLower(strings.TrimPrefix(name, "SIG"))
}

// List implements processconnect.ProcessHandler.
func (s processService) List(ctx context.Context, _ *connect.Request[process.ListRequest]) (*connect.Response[process.ListResponse], error) {
	g := guestOf(ctx)
	if err := g.answers(ctx); err != nil {
		return nil, g.refusal(ctx, err)
	}
	live, err := g.plane.LiveSessions(ctx)
	if err != nil {
		return nil, g.refusal(ctx, err)
	}
	out := &process.ListResponse{}
	for _, l := range live {
		if l.State != api.LiveSessionStateRunning || l.Pid == nil || len(l.Argv) == 0 {
			continue
		}
		pid := uint32(*l.Pid)
		s.f.processes.add(processKey{g.sandbox, pid}, &runningProcess{session: l.Id, tty: l.Tty, offset: -1})
		out.Processes = append(out.Processes, &process.ProcessInfo{Pid: pid, Config: &process.ProcessConfig{Cmd: l.Argv[0], Args: l.Argv[1:], Cwd: l.Cwd}})
	}
	return connect.NewResponse(out), nil
}

// Update implements processconnect.ProcessHandler.
func (s processService) Update(ctx context.Context, r *connect.Request[process.UpdateRequest]) (*connect.Response[process.UpdateResponse], error) {
	g := guestOf(ctx)
	size := r.Msg.GetPty().GetSize()
	err := s.with(ctx, g, r.Msg.GetProcess(), func(p *runningProcess) error {
		if size == nil {
			return nil
		}
		return g.plane.Resize(ctx, p.session, int(size.GetRows()), int(size.GetCols()))
	})
	return respond(&process.UpdateResponse{}, g.refusal(ctx, err))
}

// SendSignal implements processconnect.ProcessHandler.
func (s processService) SendSignal(ctx context.Context, r *connect.Request[process.SendSignalRequest]) (*connect.Response[process.SendSignalResponse], error) {
	g := guestOf(ctx)
	name := map[process.Signal]string{process.Signal_SIGNAL_SIGKILL: "SIGKILL", process.Signal_SIGNAL_SIGTERM: "SIGTERM"}[r.Msg.GetSignal()]
	if name == "" {
		return nil, connect.NewError(connect.CodeUnimplemented, fmt.Errorf("signal %v: want SIGNAL_SIGTERM or SIGNAL_SIGKILL", r.Msg.GetSignal()))
	}
	err := s.with(ctx, g, r.Msg.GetProcess(), func(p *runningProcess) error { return g.plane.Signal(ctx, p.session, name) })
	return respond(&process.SendSignalResponse{}, g.refusal(ctx, err))
}

// SendInput implements processconnect.ProcessHandler.
func (s processService) SendInput(ctx context.Context, r *connect.Request[process.SendInputRequest]) (*connect.Response[process.SendInputResponse], error) {
	g := guestOf(ctx)
	err := s.with(ctx, g, r.Msg.GetProcess(), func(p *runningProcess) error { return s.input(ctx, g, p, r.Msg.GetInput(), false) })
	return respond(&process.SendInputResponse{}, g.refusal(ctx, closedInput(err)))
}

// CloseStdin implements processconnect.ProcessHandler.
func (s processService) CloseStdin(ctx context.Context, r *connect.Request[process.CloseStdinRequest]) (*connect.Response[process.CloseStdinResponse], error) {
	g := guestOf(ctx)
	err := s.with(ctx, g, r.Msg.GetProcess(), func(p *runningProcess) error { return s.input(ctx, g, p, nil, true) })
	return respond(&process.CloseStdinResponse{}, g.refusal(ctx, closedInput(err)))
}

// StreamInput implements processconnect.ProcessHandler.
func (s processService) StreamInput(ctx context.Context, in *connect.ClientStream[process.StreamInputRequest]) (*connect.Response[process.StreamInputResponse], error) {
	g := guestOf(ctx)
	var selector *process.ProcessSelector
	for in.Receive() {
		m := in.Msg()
		switch e := m.GetEvent().(type) {
		case *process.StreamInputRequest_Start:
			selector = e.Start.GetProcess()
		case *process.StreamInputRequest_Data:
			err := s.with(ctx, g, selector, func(p *runningProcess) error { return s.input(ctx, g, p, e.Data.GetInput(), false) })
			if err != nil {
				return nil, g.refusal(ctx, closedInput(err))
			}
		}
	}
	return respond(&process.StreamInputResponse{}, in.Err())
}

func respond[T any](m *T, err error) (*connect.Response[T], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(m), nil
}

// with does something with the process that a selector means. One that has ended, or that is forgotten, isn't found; a pid that another process has
// since is looked for again.
func (s processService) with(ctx context.Context, g guest, selector *process.ProcessSelector, do func(*runningProcess) error) error {
	for again := false; ; again = true {
		k, p, err := s.f.find(ctx, g, selector)
		if err != nil {
			return err
		}
		err = do(p)
		if !is(err, space.CodeNotFound, space.CodeConflict, space.CodeSessionLost) {
			return err
		}
		ended, other := g.ended(ctx, p.session)
		if other != nil {
			return other
		}
		if !ended {
			return err
		}
		s.f.processes.drop(k, p)
		if again {
			return noProcess(k.pid)
		}
	}
}

// ended tells whether a session isn't running.
func (g guest) ended(ctx context.Context, session string) (bool, error) {
	live, err := g.plane.LiveSessions(ctx)
	if err != nil {
		return false, err
	}
	for _, s := range live {
		if s.Id == session {
			return s.State != api.LiveSessionStateRunning, nil
		}
	}
	return true, nil
}

// input sends input, or closes it.
func (s processService) input(ctx context.Context, g guest, p *runningProcess, in *process.ProcessInput, last bool) error {
	data := in.GetStdin()
	if pty, ok := in.GetInput().(*process.ProcessInput_Pty); ok {
		data = pty.Pty
	}
	p.input.Lock()
	defer p.input.Unlock()
	var err error
	if p.offset < 0 {
		if p.offset, err = g.plane.StdinReceived(ctx, p.session); err != nil {
			p.offset = -1
			return err
		}
	}
	if p.offset, err = g.plane.SendStdin(ctx, p.session, p.offset, bytes.NewReader(data), last); err != nil {
		p.offset = -1
	}
	return err
}

// closedInput is for a process whose input takes nothing: it isn't gone.
func closedInput(err error) error {
	if is(err, space.CodeInvalid, space.CodeConflict) {
		return connect.NewError(connect.CodeInternal, err)
	}
	return err
}
