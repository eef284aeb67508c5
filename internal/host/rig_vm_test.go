//go:build vm

package host_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/api/gen/host/v1/hostv1connect"
	"github.com/space-platform/space/api/gen/sandbox/v1/sandboxv1connect"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/gen/session/v1/sessionv1connect"
	"github.com/space-platform/space/internal/host"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/vmm/qemu"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/instance/instancetest"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/proc"
)

// serveArgument makes the test's program a spaced-host; a daemon's description follows it.
const serveArgument = "serve-host"

// ready is what the daemon prints when it serves.
const ready = "ready"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == rootfs.Subcommand {
		os.Exit(rootfs.HelperMain(os.Args[2:]))
	}
	if len(os.Args) == 3 && os.Args[1] == serveArgument {
		if err := serve(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// daemon describes a spaced-host.
type daemon struct {
	Instance instance.Instance
	Dir      string
	Kernel   kernel.Files
}

func (d daemon) volume() disk.Volume {
	return disk.Volume{Path: filepath.Join(d.Dir, "volume"), Image: filepath.Join(d.Dir, "volume.img"), Bytes: 3 << 30}
}

func (d daemon) socket() string { return filepath.Join(d.Dir, "sock") }

func serve(description string) error {
	var d daemon
	if err := json.Unmarshal([]byte(description), &d); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	driver, err := qemu.New(ctx, qemu.Config{Acceleration: "tcg"})
	if err != nil {
		return err
	}
	h, err := host.Open(ctx, host.Config{Instance: d.Instance, Volume: d.volume(), Driver: driver, Kernel: d.Kernel, Helper: rootfs.Self(), Insecure: []string{"127.0.0.1"}, DataDir: filepath.Join(d.Dir, "data")})
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := peer.Listen(d.socket(), 0)
	if err != nil {
		return err
	}
	fmt.Println(ready)
	return peer.Serve(ctx, l, h.Handler())
}

// rig is a spaced-host in a process of its own, with an instance of its own.
type rig struct {
	daemon
	t        *testing.T
	process  *exec.Cmd
	host     hostv1connect.HostServiceClient
	sessions sessionv1connect.SessionServiceClient
	sandbox  sandboxv1connect.SandboxServiceClient
}

// story is a part of a node's life that leaves nothing but templates.
type story struct {
	name string
	run  func(t *testing.T, r *rig, template string)
}

// tell has one node after the other's stories, on the template mini. Several nodes are told of side by side.
func tell(t *testing.T, stories ...story) {
	t.Parallel()
	r := newRig(t)
	mini := r.template("mini")
	for _, s := range stories {
		r.sub(s.name, func(t *testing.T) { s.run(t, r, mini) })
	}
}

// sub runs a story on the rig; nothing but templates is left of it.
func (r *rig) sub(name string, run func(t *testing.T)) {
	r.t.Run(name, func(t *testing.T) {
		outer := r.t
		r.t = t
		defer func() { r.t = outer }()
		run(t)
		r.checkNothingLeft()
	})
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "host")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, daemon: daemon{Dir: dir, Instance: instancetest.Own(t)}}
	r.Kernel = vmmtest.Kernel(t)
	if err := r.volume().Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.cleanUp)
	client := peer.Client(r.socket(), 0)
	r.host = hostv1connect.NewHostServiceClient(client, "http://host")
	r.sessions = sessionv1connect.NewSessionServiceClient(client, "http://host")
	r.sandbox = sandboxv1connect.NewSandboxServiceClient(client, "http://host")
	r.start()
	return r
}

func (r *rig) cleanUp() {
	r.kill()
	r.checkNothingLeft()
	j, err := jail.New(r.Instance)
	if err != nil {
		r.t.Fatal(err)
	}
	defer j.Close()
	if _, err := j.Sweep(context.Background(), nil); err != nil {
		r.t.Error(err)
	}
	if err := r.volume().Purge(context.Background()); err != nil {
		r.t.Errorf("%v; held by %v", err, holders(r.volume().Path))
	}
	os.RemoveAll(r.Instance.RunDir())
	os.Remove(filepath.Dir(r.Instance.RunDir())) // unless other instances run
	os.RemoveAll(r.Dir)
}

// start starts the daemon and returns when it serves.
func (r *rig) start() {
	r.t.Helper()
	description, err := json.Marshal(r.daemon)
	if err != nil {
		r.t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe", serveArgument, string(description))
	c.Stderr = logWriter{r.t}
	out, err := c.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.process = c
	if line, err := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != ready {
		r.t.Fatalf("the daemon said %q, %v", line, err)
	}
}

// kill ends the daemon without a warning.
func (r *rig) kill() {
	r.process.Process.Kill()
	r.process.Wait()
}

// stop asks the daemon to end.
func (r *rig) stop() {
	r.t.Helper()
	r.process.Process.Signal(syscall.SIGTERM)
	if err := r.process.Wait(); err != nil {
		r.t.Fatalf("the daemon ended with %v", err)
	}
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Logf("daemon: %s", strings.TrimSpace(string(b)))
	return len(b), nil
}

// checkNothingLeft fails the test if anything but templates is there.
func (r *rig) checkNothingLeft() {
	r.t.Helper()
	j, err := jail.New(r.Instance)
	if err != nil {
		r.t.Fatal(err)
	}
	defer j.Close()
	left, err := j.Leftovers(nil)
	if err != nil || len(left) > 0 {
		r.t.Errorf("left are %v, %v", left, err)
	}
	entries, err := os.ReadDir(filepath.Join(r.volume().Path, "executions"))
	if err != nil || len(entries) > 0 {
		r.t.Errorf("left are the files of %v, %v", entries, err)
	}
}

// await watches the host until the test's condition holds.
func (r *rig) await(what string, limit time.Duration, ok func(*hostv1.WatchResponse) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	stream, err := r.host.Watch(ctx, connect.NewRequest(&hostv1.WatchRequest{}))
	if err != nil {
		r.t.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() {
		if ok(stream.Msg()) {
			return
		}
	}
	r.t.Fatalf("waited %s in vain for %s: %v", limit, what, stream.Err())
}

// template builds a template and returns its id.
func (r *rig) template(recipe string) string {
	r.t.Helper()
	id := space.NewID(space.PrefixTemplate)
	_, err := r.host.EnsureTemplate(r.t.Context(), connect.NewRequest(&hostv1.EnsureTemplateRequest{
		Order: &controlv1.EnsureTemplate{Template: id, Recipe: recipe},
	}))
	if err != nil {
		r.t.Fatal(err)
	}
	r.await("the template", 10*time.Minute, func(w *hostv1.WatchResponse) bool {
		for _, x := range w.GetTemplates() {
			if x.GetTemplate() == id && x.GetState() == "failed" {
				r.t.Fatalf("the build failed: %v", x.GetError())
			}
			if x.GetTemplate() == id && x.GetState() == "ready" {
				return true
			}
		}
		return false
	})
	return id
}

// route is that of a new sandbox.
func (r *rig) route() space.Route {
	return space.Route{
		Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: 1,
		Placement: space.Placement{Kind: space.PlacementNode, Node: r.Instance.Node()},
	}
}

// ensure makes an execution that runs, and returns how long that took.
func (r *rig) ensure(template string, route space.Route) time.Duration {
	r.t.Helper()
	return r.order(&controlv1.EnsureExecution{Route: peer.RouteMessage(route), Template: template})
}

// order orders an execution and returns how long it took until it ran.
func (r *rig) order(o *controlv1.EnsureExecution) time.Duration {
	r.t.Helper()
	began := time.Now()
	a, err := r.host.EnsureExecution(r.t.Context(), connect.NewRequest(&hostv1.EnsureExecutionRequest{Order: o}))
	if err != nil {
		r.t.Fatal(err)
	}
	if got := a.Msg.GetReport(); got.GetState() != string(space.ExecutionRunning) {
		r.t.Fatalf("it's %s: %v", got.GetState(), got.GetError())
	}
	return time.Since(began)
}

func (r *rig) remove(route space.Route) {
	r.t.Helper()
	_, err := r.host.RemoveExecution(r.t.Context(), connect.NewRequest(&hostv1.RemoveExecutionRequest{Route: peer.RouteMessage(route)}))
	if err != nil {
		r.t.Fatal(err)
	}
}

// client is somebody who is attached to a session, and comes back with its offset.
type client struct {
	r       *rig
	route   space.Route
	session string
	spec    *sessionv1.Spec
	take    func([]byte) // is given the output instead of keeping it; nil: it's kept

	got     uint64 // bytes of output
	started bool
	last    *sessionv1.AttachResponse

	mu      sync.Mutex
	data    []byte
	changed chan struct{} // closed and replaced when data grows
}

// attach follows the session until its stream ends, and calls grown after each event.
func (c *client) attach(ctx context.Context, grown func(int)) error {
	stream, err := c.r.sessions.Attach(ctx, connect.NewRequest(&sessionv1.AttachRequest{
		Route: peer.RouteMessage(c.route), Session: c.session, Spec: c.spec,
		FromOffset: c.got, Resume: c.started,
	}))
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		e := stream.Msg()
		c.started = c.started || e.GetStarted() != nil
		if o := e.GetOutput(); o != nil {
			if o.GetOffset() != c.got {
				return fmt.Errorf("output at %d, want %d", o.GetOffset(), c.got)
			}
			c.got += uint64(len(o.GetData()))
			c.keep(o.GetData())
		}
		if g := e.GetGap(); g != nil {
			c.got = g.GetTo()
		}
		c.last = e
		grown(int(c.got))
	}
	return stream.Err()
}

func (c *client) keep(b []byte) {
	if c.take != nil {
		c.take(b)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.data = append(c.data, b...)
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until a client that is attached has got a text.
func (c *client) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		c.mu.Lock()
		data, changed := string(c.data), c.changed
		c.mu.Unlock()
		if strings.Contains(data, text) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited in vain for %q, got %q", text, data)
		}
	}
}

func (r *rig) client(route space.Route, argv ...string) *client {
	return &client{
		r: r, route: route, session: space.NewID(space.PrefixSession), spec: &sessionv1.Spec{Argv: argv, User: "user"}, changed: make(chan struct{}),
	}
}

// runLimit bounds a command of a test: an emulated guest beside others on two slow processors takes 40 s to print 24 MiB.
const runLimit = 3 * time.Minute

// run runs a command to its end and returns what it printed.
func (r *rig) run(route space.Route, argv ...string) string {
	r.t.Helper()
	c := r.client(route, argv...)
	ctx, cancel := context.WithTimeout(r.t.Context(), runLimit)
	defer cancel()
	if err := c.attach(ctx, func(int) {}); err != nil {
		r.t.Fatalf("run %q: %v", argv, err)
	}
	if exit := c.last.GetExit(); exit == nil || exit.GetCode() != 0 {
		r.t.Fatalf("run %q: printed %q, then %v", argv, c.data, c.last)
	}
	return string(c.data)
}

// machines returns the pids of the instance's machines.
func (r *rig) machines() []int {
	r.t.Helper()
	first, last := r.Instance.VMUIDs()
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		r.t.Fatal(err)
	}
	var out []int
	for _, p := range paths {
		var st syscall.Stat_t
		if syscall.Stat(p, &st) != nil || int(st.Uid) < first || int(st.Uid) > last {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(p))
		if err != nil {
			continue
		}
		if _, err := proc.Read(pid); err == nil { // not a zombie, which waits for the machine's first process
			out = append(out, pid)
		}
	}
	return out
}

// holders are the processes with a mount namespace in which a directory is a mount point: each may hold what is mounted there.
func holders(dir string) (out []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, p := range paths {
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), " "+dir+" ") {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(p), "cmdline"))
			out = append(out, filepath.Base(filepath.Dir(p))+" "+strings.ReplaceAll(string(line[:min(len(line), 100)]), "\x00", " "))
		}
	}
	return out
}
