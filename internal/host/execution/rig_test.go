package execution

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	space "github.com/space-platform/space"
	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/cgroup"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/meminfo"
	"github.com/space-platform/space/internal/host/netns"
	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/snapshot"
	"github.com/space-platform/space/internal/host/template"
	"github.com/space-platform/space/internal/host/uids"
	"github.com/space-platform/space/internal/host/vmm"
)

// testOverhead is what a machine is promised beside its guest's memory.
const testOverhead = 7 << 20

// rig is a host whose kernel and VMM are of the test: what lives there outlives a Table, as it outlives the daemon.
type rig struct {
	t    *testing.T
	dir  string
	pool *uids.Pool

	promises *promise.Ledger // of this life
	memory   int64           // that it promises

	mu        sync.Mutex
	homes     map[string]jail.Spec // enclosures that exist
	kept      []int64              // of how much memory the machines are for which room was asked to be kept
	noKeep    error                // why there's none
	lent      []int64              // for how much memory that room is used now
	sealed    *os.File             // the memory of the template's snapshot, if machines share it
	machines  map[int]*testMachine // by pid; dead ones stay
	loads     int
	boots     []vmm.Boot
	measured  int // how often guests were asked for their figures
	loadErr   error
	keepsLink bool                        // whether a link outlives a pause
	mute      bool                        // guests don't answer
	dead      int                         // the first so many machines end while they start
	dying     int                         // the first so many machines end when they're greeted
	dumb      int                         // and the guests of the first so many don't answer
	fickle    atomic.Int32                // so many links more are broken by guests as soon as they're up
	failed    *guestv1.Quiesced           // not nil: what guests answer whose disks take nothing; old ones don't know of it
	old       bool                        // guests are of an older version
	slain     func(*guestv1.Quiesce) bool // not nil: at which of these calls machines are killed
	deaf      chan struct{}               // not nil: guests don't answer when they are to come to rest; one that hears it closes it
	stall     func(context.Context) error // called in the step named by at
	at        string
	template  error
	full      error
	rejected  []string
	wanted    []rootfs.Size   // shapes that had no snapshot
	starts    *sessionv1.Spec // what the template has running
	sessions  string          // directory of the snapshot's sessions
	slots     PoolConfig
	paged     bool       // whether memory comes page by page
	pages     *vmm.Pages // of the last load
	fate      error      // why machines end, as far as the driver knows
	snapshot  string     // the name of the template's snapshot's state file
	saves     []saveOf

	volume    *disk.Volume    // nil: the files lie anywhere, and copies are copies
	snapshots *snapshot.Store // of this life
	asked     []string        // the sessions that guests were asked for
	life      context.Context // ends with this life
	die       func()          // ends what this life does where nothing else would
}

// saveOf is what a memory was before a machine was saved, and whose save that is.
type saveOf struct {
	memory, earlier string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"disk", "mem", "state"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &rig{t: t, dir: dir, memory: 64 << 30, snapshot: "state", homes: map[string]jail.Spec{}, machines: map[int]*testMachine{}}
}

// open is a new life of the daemon.
func (r *rig) open() *Table {
	r.t.Helper()
	r.pool, r.promises = uids.New(5000, 5009), promise.New(r.memory)
	snapshots, err := snapshot.Open(snapshot.Config{Dir: filepath.Join(r.dir, "snapshots"), Volume: r, Own: r.own, Extents: r.extents, Template: r.origin, Changed: func() {}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(snapshots.Close)
	r.snapshots = snapshots
	life, die := context.WithCancel(r.t.Context())
	r.life, r.die = life, die
	table, err := Open(r.t.Context(), Config{
		Dir: filepath.Join(r.dir, "executions"), Sandboxes: filepath.Join(r.dir, "sandboxes"), Node: "node", Driver: r, Paged: r.paged, Enclosures: r, UIDs: r.pool, Templates: r, Snapshots: snapshots, Clone: r.clone, DiskUsage: func(context.Context, string) (int64, error) { return 77, nil }, Most: rootfs.Size{VCPUs: 4, MemoryBytes: 1 << 30, DiskBytes: 1 << 30}, Room: func() error { return r.full }, Keep: r.keep, Reserve: r.reserve, Changed: func() {},
		Promises: r.promises, Overhead: testOverhead, Pool: r.slots, Memory: func() (meminfo.Facts, error) { return meminfo.Facts{Total: 8 << 30, Available: 4 << 30}, nil },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(table.Close)
	return table
}

// step waits where the test wants it to.
func (r *rig) step(ctx context.Context, name string) error {
	r.mu.Lock()
	stall, at := r.stall, r.at
	r.mu.Unlock()
	if stall == nil || at != name {
		return nil
	}
	return stall(ctx)
}

// stopAt makes the next creation wait in a step. It returns a channel that is closed when it's there.
func (r *rig) stopAt(name string) <-chan struct{} {
	there := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = name
	r.stall = func(ctx context.Context) error {
		r.mu.Lock()
		r.stall = nil
		r.mu.Unlock()
		close(there)
		<-ctx.Done()
		return ctx.Err()
	}
	return there
}

// atStep has something done in the next step of a name. It returns what reports whether it came to that.
func (r *rig) atStep(name string, do func() error) (done func() bool) {
	var did atomic.Bool
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = name
	r.stall = func(context.Context) error {
		r.mu.Lock()
		r.stall = nil
		r.mu.Unlock()
		did.Store(true)
		return do()
	}
	return did.Load
}

func (r *rig) clone(from, to string, _ int) error {
	if r.volume != nil {
		return disk.Clone(from, to, 0)
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(b)
	return err
}

// Make, Freeze and Delete make subvolumes where there's a volume, and stand for that elsewhere.
func (r *rig) Make(path string) error {
	if r.volume != nil {
		return disk.CreateSubvolume(path)
	}
	return os.Mkdir(path, 0o700)
}

func (r *rig) Freeze(path string) error {
	if r.volume != nil {
		return disk.SetReadOnly(path)
	}
	return r.step(r.life, "freeze")
}

func (r *rig) Delete(path string) error {
	if r.volume != nil {
		return errors.Join(disk.DeleteSubvolume(path), os.RemoveAll(path))
	}
	return os.RemoveAll(path)
}

// own says that all of a file is its own, where no file shares anything.
func (r *rig) own(ctx context.Context, path string) ([]seal.Part, error) {
	if r.volume != nil {
		return disk.OwnParts(ctx, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return []seal.Part{{Bytes: info.Size()}}, nil
}

// extents says that a file shares nothing.
func (r *rig) extents(ctx context.Context, path string, do func(disk.Extent)) error {
	if r.volume != nil {
		return disk.Extents(ctx, path, do)
	}
	info, err := os.Stat(path)
	if err == nil {
		do(disk.Extent{Place: -1, Bytes: info.Size()})
	}
	return err
}

// origin is the template's snapshot.
func (r *rig) origin(string, string) (snapshot.Origin, func()) {
	return snapshot.Origin{Disk: filepath.Join(r.dir, "disk"), Memory: filepath.Join(r.dir, "mem")}, func() {}
}

// keep keeps nothing.
func (r *rig) keep(memory int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, memory)
	return r.noKeep
}

// reserve notes who uses what is kept.
func (r *rig) reserve(memory int64) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lent = append(r.lent, memory)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lent = slices.Delete(r.lent, slices.Index(r.lent, memory), slices.Index(r.lent, memory)+1)
	}
}

func (r *rig) SnapshotFor(string, rootfs.Size) (template.Snapshot, func(), error) {
	return template.Snapshot{
		State: r.stateFile(), Memory: filepath.Join(r.dir, "mem"), Disk: filepath.Join(r.dir, "disk"), Size: ownSize, Sessions: r.sessions,
		Digest: "digest", WorkingSet: filepath.Join(r.dir, "set"), Sealed: r.sealed,
	}, func() {}, r.template
}

// ownSize is that of the rig's only snapshot.
var ownSize = rootfs.Size{VCPUs: 1, MemoryBytes: 1 << 20, DiskBytes: 1 << 20}

func (r *rig) stateFile() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return filepath.Join(r.dir, r.snapshot)
}

func (r *rig) Loadable() []template.Loadable {
	return []template.Loadable{{Template: "tpl_x", Size: ownSize, State: r.stateFile(), Own: true}}
}

func (r *rig) Probe(string) *sessionv1.Spec { return &sessionv1.Spec{Argv: []string{"true"}} }

func (r *rig) BuildShape(_ string, size rootfs.Size) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = append(r.wanted, size)
}

func (r *rig) Start(string) *sessionv1.Spec { return r.starts }

func (r *rig) Reject(id string) { r.rejected = append(r.rejected, id) }

func (r *rig) Enclose(ctx context.Context, s jail.Spec) (vmm.Enclosure, error) {
	r.mu.Lock()
	_, taken := r.homes[s.ID]
	r.homes[s.ID] = s
	r.mu.Unlock()
	if taken {
		return vmm.Enclosure{}, errors.New("the enclosure is there already")
	}
	return r.Find(s), r.step(ctx, "enclose")
}

func (r *rig) Find(s jail.Spec) vmm.Enclosure { return vmm.Enclosure{ID: s.ID, UID: s.UID} }

func (r *rig) Measure(jail.Spec) (jail.Usage, error) {
	return jail.Usage{Usage: cgroup.Usage{CPUNanos: 5e8, MemoryBytes: 1234}, Traffic: netns.Traffic{Received: 1, Sent: 2}}, nil
}

func (r *rig) Weigh(jail.Spec) error { return nil }

func (r *rig) Remove(ctx context.Context, s jail.Spec) error {
	if err := r.step(ctx, "free"); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.machines {
		if m.uid == s.UID {
			m.die()
		}
	}
	delete(r.homes, s.ID)
	return nil
}

func (r *rig) Name() string { return "test" }
func (r *rig) Capabilities() vmm.Capabilities {
	return vmm.Capabilities{PauseKeepsLink: r.keepsLink}
}

func (r *rig) Boot(ctx context.Context, e vmm.Enclosure, b vmm.Boot) (vmm.Machine, error) {
	r.mu.Lock()
	r.boots = append(r.boots, b)
	r.mu.Unlock()
	return r.start(ctx, e)
}

func (r *rig) Load(ctx context.Context, e vmm.Enclosure, l vmm.Load) (vmm.Machine, error) {
	r.mu.Lock()
	r.loads++
	r.pages = l.Pages
	r.mu.Unlock()
	return r.start(ctx, e)
}

// wantDeadline fails the test if a VMM that hangs in a call would hold the execution's owner up for ever, who alone can remove it.
func (r *rig) wantDeadline(ctx context.Context, call string) {
	if _, ok := ctx.Deadline(); !ok {
		r.t.Errorf("%s has no deadline", call)
	}
}

func (r *rig) start(ctx context.Context, e vmm.Enclosure) (vmm.Machine, error) {
	r.wantDeadline(ctx, "start")
	r.mu.Lock()
	m := &testMachine{rig: r, pid: len(r.machines) + 1, uid: e.UID, done: make(chan struct{}), ended: make(chan struct{})}
	r.machines[m.pid] = m
	err := r.loadErr
	if m.pid <= r.dead {
		err = vmm.ErrGone
	}
	r.mu.Unlock()
	if err == nil {
		err = r.step(ctx, "load")
	}
	if err != nil {
		m.die()
		return nil, err
	}
	return m, nil
}

func (r *rig) Recover(ctx context.Context, _ vmm.Enclosure, h vmm.Handle) (vmm.Machine, error) {
	r.wantDeadline(ctx, "recover")
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.machines[h.PID]
	if m == nil || m.dead() {
		return nil, errors.Join(vmm.ErrGone, r.fate)
	}
	return m, nil
}

// running returns the machines that live.
func (r *rig) running() []*testMachine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Values(r.machines)), (*testMachine).dead)
}

// checkNothingLeft fails the test if anything of any execution is there.
func (r *rig) checkNothingLeft() {
	r.t.Helper()
	entries, err := os.ReadDir(filepath.Join(r.dir, "executions"))
	if err != nil {
		r.t.Fatal(err)
	}
	if len(entries) > 0 || len(r.homes) > 0 || len(r.running()) > 0 {
		r.t.Errorf("left are %v, enclosures %v, %d machines", entries, r.homes, len(r.running()))
	}
	if kept, err := os.ReadDir(filepath.Join(r.dir, "sandboxes")); err != nil || len(kept) > 0 {
		r.t.Errorf("left are the sessions of %v, %v", kept, err)
	}
	if left := r.promises.Left(); left != r.memory {
		r.t.Errorf("%d bytes of memory are still promised", r.memory-left)
	}
	for range 10 {
		if _, err := r.pool.Take(); err != nil {
			r.t.Errorf("a uid is lost: %v", err)
		}
	}
}

// testMachine is a machine with a guest that keeps nothing: each session prints hello, and ends unless it's called wait.
type testMachine struct {
	rig  *rig
	pid  int
	uid  int
	once sync.Once
	done chan struct{}

	ended chan struct{} // closed when the processes were told to end; guarded by rig.mu for writing
	port  *port         // nil until somebody dials; guarded by rig.mu
	name  atomic.Value  // string: that the guest was given

	paused atomic.Bool
	dials  atomic.Int32
}

func (m *testMachine) die() { m.once.Do(func() { close(m.done) }) }

// slay ends it as a kill does: its socket ends a moment before it's known to be gone.
func (m *testMachine) slay() {
	m.port.conn().Close()
	time.AfterFunc(50*time.Millisecond, m.die)
}

func (m *testMachine) dead() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

func (m *testMachine) Handle() vmm.Handle { return vmm.Handle{Driver: "test", PID: m.pid, UID: m.uid} }

func (m *testMachine) Resume(ctx context.Context) error {
	m.rig.wantDeadline(ctx, "resume")
	m.paused.Store(false)
	return nil
}

func (m *testMachine) Pause(ctx context.Context) error {
	m.rig.wantDeadline(ctx, "pause")
	if err := m.rig.step(ctx, "pause"); err != nil {
		return err
	}
	m.paused.Store(true)
	return nil
}
func (m *testMachine) Done() <-chan struct{} { return m.done }
func (m *testMachine) Close() error          { return nil }
func (m *testMachine) Err() error            { return m.rig.fate }
func (m *testMachine) LastWords() string     { return "what it said" }

func (m *testMachine) Kill(ctx context.Context) error {
	m.rig.wantDeadline(ctx, "kill")
	if err := m.rig.step(ctx, "kill"); err != nil {
		return err
	}
	m.die()
	return nil
}

// Save writes whose state it is.
func (m *testMachine) Save(ctx context.Context, to vmm.Save) (vmm.Manifest, vmm.Finish, error) {
	m.rig.wantDeadline(ctx, "save")
	if !m.paused.Load() {
		return vmm.Manifest{}, nil, errors.New("it isn't paused")
	}
	if err := m.rig.step(ctx, "save"); err != nil {
		return vmm.Manifest{}, nil, err
	}
	begins, err := os.ReadFile(to.Memory.Name())
	if err != nil {
		return vmm.Manifest{}, nil, err
	}
	m.rig.mu.Lock()
	m.rig.saves = append(m.rig.saves, saveOf{string(begins), to.Earlier})
	m.rig.mu.Unlock()
	_, err = fmt.Fprintf(to.State, "state of %d", m.pid)
	finish := func(ctx context.Context) (seal.Content, error) {
		if err := m.rig.step(ctx, "finish"); err != nil {
			return seal.Content{}, err
		}
		_, err := to.Memory.WriteAt([]byte("changed"), 0)
		return seal.Content{}, err
	}
	return vmm.Manifest{Driver: "test"}, finish, err
}

func (m *testMachine) DialGuest(ctx context.Context) (net.Conn, error) {
	m.rig.wantDeadline(ctx, "dial")
	if err := m.rig.step(ctx, "greet"); err != nil {
		return nil, err
	}
	m.dials.Add(1)
	host, guest := net.Pipe()
	m.rig.mu.Lock()
	defer m.rig.mu.Unlock()
	if m.pid <= m.rig.dying { // its socket ends a moment before it does
		guest.Close()
		time.AfterFunc(100*time.Millisecond, m.die)
		return host, nil
	}
	if m.rig.mute || m.pid <= m.rig.dumb {
		m.rig.t.Cleanup(func() { guest.Close() })
		return host, nil
	}
	if m.port == nil {
		m.boot()
	}
	select {
	case m.port.plugged <- guest:
		return host, nil
	case <-m.done:
		guest.Close()
		return host, nil
	}
}

// boot starts the guest.
func (m *testMachine) boot() {
	m.port = &port{plugged: make(chan net.Conn), out: make(chan struct{})}
	end := link.NewGuest(m.port, link.Hooks{Sync: m.adopt, Clock: m.tick})
	var work sync.WaitGroup
	work.Go(func() { <-m.done; m.port.pull() })
	work.Go(func() { end.Run() })
	work.Go(func() { m.accept(end, &work) })
	m.rig.t.Cleanup(func() { m.die(); work.Wait() })
}

func (m *testMachine) adopt(s link.Sync) error {
	m.name.Store(s.Hostname) // without the rig's lock, which a dialer holds that waits for this goroutine
	return nil
}

// tick is told the time, which is the last of a handshake.
func (m *testMachine) tick(time.Time) error {
	if m.rig.fickle.Add(-1) >= 0 {
		m.port.conn().Close()
	}
	return nil
}

// port is the guest's end of a cable that the host may plug in anew at any time.
type port struct {
	plugged chan net.Conn
	out     chan struct{} // closed when the machine is gone

	mu  sync.Mutex
	now net.Conn
}

func (p *port) conn() net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *port) Read(b []byte) (int, error) {
	for {
		if c := p.conn(); c != nil {
			if n, err := c.Read(b); err == nil {
				return n, nil
			}
		}
		select {
		case c := <-p.plugged:
			p.mu.Lock()
			p.now = c
			p.mu.Unlock()
		case <-p.out:
			return 0, net.ErrClosed
		}
	}
}

func (p *port) Write(b []byte) (int, error) {
	if c := p.conn(); c != nil {
		c.Write(b) // what nobody takes is lost, as on a real port
	}
	return len(b), nil
}

func (p *port) pull() {
	close(p.out)
	if c := p.conn(); c != nil {
		c.Close()
	}
}

func (m *testMachine) accept(end *link.Guest, work *sync.WaitGroup) {
	for {
		st, err := end.Accept(context.Background())
		if err != nil {
			return
		}
		work.Go(func() { m.rig.serve(st, m) })
	}
}

func (r *rig) serve(st *link.Stream, m *testMachine) {
	b, err := st.Recv(context.Background())
	if err != nil {
		return
	}
	call := new(guestv1.Call)
	proto.Unmarshal(b, call)
	o := call.GetOpenSession()
	r.mu.Lock()
	deaf, failed, old, slain := r.deaf, r.failed, r.old, r.slain
	if o != nil {
		r.asked = append(r.asked, o.GetSession())
	}
	r.mu.Unlock()
	if deaf != nil && call.GetQuiesce() != nil {
		signal(deaf)
		st.Recv(context.Background())
		return
	}
	if q := call.GetQuiesce(); q != nil && slain != nil && slain(q) {
		m.slay()
		return
	}
	if q := call.GetQuiesce(); q != nil && failed != nil && !q.GetWriteOutOnly() && !q.GetFreezeOnly() {
		if old || !q.GetTellUnwritten() {
			st.Reset(link.CodeInternal)
			return
		}
		say(st, failed)
		st.CloseSend()
		return
	}
	if call.GetTerminate() != nil {
		r.mu.Lock()
		signal(m.ended)
		r.mu.Unlock()
		say(st, &guestv1.Terminated{})
		st.CloseSend()
		return
	}
	if call.GetMeasure() != nil {
		r.mu.Lock()
		r.measured++
		r.mu.Unlock()
		say(st, &sandboxv1.GuestUsage{MemoryTotalBytes: 10, MemoryUsedBytes: 4, Processes: 3})
		st.CloseSend()
		return
	}
	if o == nil {
		say(st, &guestv1.Forgotten{})
		st.CloseSend()
		return
	}
	const text = "hello"
	say(st, &guestv1.FromSession{Message: &guestv1.FromSession_Opened{Opened: &guestv1.Opened{StartedUnixNanos: 1}}})
	if rest := text[min(int(o.GetAcknowledged()), len(text)):]; rest != "" {
		say(st, &guestv1.FromSession{Message: &guestv1.FromSession_Output{Output: &sessionv1.Output{
			Stream: sessionv1.Stream_STREAM_STDOUT, Offset: o.GetAcknowledged(), Data: []byte(rest),
		}}})
	}
	exit := &sessionv1.Exit{Offset: uint64(len(text))}
	if o.GetSpec().GetArgv()[0] == "wait" {
		select {
		case <-m.ended:
			exit.Signal, exit.Stopped = int32(unix.SIGTERM), true
		case <-st.Done():
			return
		}
	}
	say(st, &guestv1.FromSession{Message: &guestv1.FromSession_Exit{Exit: exit}})
	for {
		if _, err := st.Recv(context.Background()); err != nil {
			return
		}
	}
}

func say(st *link.Stream, m proto.Message) {
	b, _ := proto.Marshal(m)
	st.Send(context.Background(), b)
}

// order is one for a new sandbox on the rig's node.
func order() Order {
	return Order{Template: "tpl_x", Route: space.Route{
		Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: 1,
		Placement: space.Placement{Kind: space.PlacementNode, Node: "node"},
	}}
}

// attachment is an attached client.
type attachment struct {
	events chan *sessionv1.AttachResponse
	err    chan error
}

func attach(t *testing.T, table *Table, r space.Route, argv0 string) attachment {
	t.Helper()
	a := attachment{events: make(chan *sessionv1.AttachResponse, 10), err: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	q := session.Request{Session: space.NewID(space.PrefixSession), Spec: &sessionv1.Spec{Argv: []string{argv0}}}
	go func() {
		a.err <- table.Attach(ctx, r, q, func(e *sessionv1.AttachResponse) error { a.events <- e; return nil })
	}()
	t.Cleanup(cancel)
	return a
}

// next returns the next event.
func (a attachment) next(t *testing.T) *sessionv1.AttachResponse {
	t.Helper()
	select {
	case e := <-a.events:
		return e
	case <-time.After(patience):
		t.Fatal("no event")
		return nil
	}
}

// awaitEnd takes all events until the stream's end.
func (a attachment) awaitEnd(t *testing.T) {
	t.Helper()
	for {
		select {
		case <-a.events:
		case err := <-a.err:
			if err != nil {
				t.Error(err)
			}
			return
		case <-time.After(patience):
			t.Fatal("the stream doesn't end")
		}
	}
}

const patience = 20 * time.Second
