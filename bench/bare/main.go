// Command bare does by hand, from the same base snapshot, what the platform does for a sandbox: clone the disk, start QEMU on the shared memory, wait for
// the guest's acknowledgement of clock and seed, run /bin/echo. It has a network namespace, a tap and the sealed memory ready before it begins, no
// jail, no API, no database. What the platform takes more than this is the platform's own cost.
//
// It prints the QEMU line that it used on stderr and one JSON object with its samples, in milliseconds, on stdout. It needs root, and the
// snapshot's volume must be able to share extents (btrfs).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/space-platform/space/api/link"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

// roundDeadline bounds one sandbox's life.
const roundDeadline = 3 * time.Minute

// samples are the milliseconds of each round.
type samples struct {
	Create    []float64 `json:"create_cold_running_ms"` // clone → acknowledgement
	ExecFirst []float64 `json:"exec_echo_first_ms"`     // the first /bin/echo after it
	ExecWarm  []float64 `json:"exec_echo_ms"`           // the following ones
	Wall      []float64 `json:"launch_ms"`              // with -parallel: from the start of all to the last acknowledgement
	// With -transfer: megabytes (10⁶ bytes) a second.
	Stdout    []float64 `json:"stdout_mbps,omitempty"`
	FileWrite []float64 `json:"file_write_mbps,omitempty"`
	FileRead  []float64 `json:"file_read_mbps,omitempty"`
	// With -forks: see states.
	Suspend       []float64 `json:"suspend_ms,omitempty"`
	RestoreExec   []float64 `json:"restore_first_exec_ms,omitempty"`
	ForkPause     []float64 `json:"fork_pause_ms,omitempty"`
	ForkFirstExec []float64 `json:"fork_first_exec_ms,omitempty"`
}

func main() {
	log.SetFlags(0)
	var b bare
	var rounds, execs, parallel int
	flag.StringVar(&b.snapshot, "snapshot", "", "directory of a template's base snapshot")
	flag.StringVar(&b.scratch, "scratch", "", "directory on the same file system for the clones")
	flag.IntVar(&rounds, "rounds", 10, "how many sandboxes, one after the other")
	flag.IntVar(&execs, "execs", 5, "how many warm commands in each")
	flag.IntVar(&parallel, "parallel", 0, "start so many at once instead, without commands")
	flag.Int64Var(&b.transfer, "transfer", 0, "after the commands move so many bytes each way")
	flag.IntVar(&b.forks, "forks", 0, "instead fork each machine so often, suspend it, and restore it")
	flag.StringVar(&b.fill, "fill", "", "with -forks: a shell's command that takes memory before, and prints full when it has it")
	flag.BoolVar(&b.line, "line", true, "show QEMU's command line")
	flag.Parse()
	out, err := measure(&b, rounds, execs, parallel)
	if err != nil {
		log.Fatal("bare: ", err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		log.Fatal("bare: ", err)
	}
}

func measure(b *bare, rounds, execs, parallel int) (samples, error) {
	var s samples
	defer b.release()
	if err := b.prepare(max(parallel, 2)); err != nil { // a fork has its machine beside the other
		return s, err
	}
	if parallel > 0 {
		return s, b.launch(&s)
	}
	for n := range rounds {
		round := func() error { return b.round(n, execs, &s) }
		if b.forks > 0 {
			round = func() error { return b.states(&s) }
		}
		if err := round(); err != nil {
			return s, fmt.Errorf("round %d: %w", n+1, err)
		}
	}
	return s, nil
}

// bare is what's ready before the first round.
type bare struct {
	snapshot, scratch string
	manifest          manifest
	places            []place
	memory            *os.File // the snapshot's memory, sealed: mapped privately by each machine, as the platform does it
	line              bool     // show QEMU's line
	transfer          int64    // bytes that each life moves each way
	forks             int      // of each life; 0: it's about something else
	fill              string   // a command that takes memory before them; "" for none
}

// place is where one machine runs.
type place struct {
	namespace string
	tap       *os.File
}

// manifest is what a snapshot's says of its shape.
type manifest struct {
	VMM struct {
		CPU         string `json:"cpu"`
		VCPUs       int    `json:"vcpus"`
		MemoryBytes int64  `json:"memory_bytes"`
	} `json:"vmm"`
}

// prepare reads the snapshot and makes places for machines that run at the same time.
func (b *bare) prepare(places int) (err error) {
	raw, err := os.ReadFile(filepath.Join(b.snapshot, "manifest.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &b.manifest); err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	for n := range places {
		p := place{namespace: fmt.Sprintf("space-bare-%d-%d", os.Getpid(), n)}
		if out, err := exec.Command("ip", "netns", "add", p.namespace).CombinedOutput(); err != nil {
			return fmt.Errorf("make a network namespace: %w: %s", err, out)
		}
		b.places = append(b.places, p)
		if b.places[n].tap, err = openTap(p.namespace); err != nil {
			return err
		}
	}
	b.memory, err = sealed(filepath.Join(b.snapshot, "mem.img"))
	return err
}

// sealed copies a file into memory that can be opened for writing, which QEMU before 8.2 insists on, but not be written.
func sealed(path string) (*os.File, error) {
	src, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	fd, err := unix.MemfdCreate("bare", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	dst := os.NewFile(uintptr(fd), "memory")
	if _, err := io.Copy(dst, src); err != nil {
		return nil, fmt.Errorf("copy %s: %w", path, err)
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(dst.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal the memory: %w", err)
	}
	return dst, nil
}

func (b *bare) release() {
	for _, p := range b.places {
		if p.tap != nil {
			p.tap.Close()
		}
		if err := exec.Command("ip", "netns", "del", p.namespace).Run(); err != nil {
			log.Print("bare: remove a network namespace: ", err)
		}
	}
}

// round is one sandbox's life.
func (b *bare) round(n, execs int, s *samples) error {
	return b.live(b.places[0], b.line && n == 0, func(ctx context.Context, took float64, m *machine) error {
		l := m.link
		s.Create = append(s.Create, took)
		for i := range execs + 1 {
			began := time.Now()
			if err := echo(ctx, l, fmt.Sprintf("ses_bare%d", i)); err != nil {
				return err
			}
			if i == 0 {
				s.ExecFirst = append(s.ExecFirst, since(began))
			} else {
				s.ExecWarm = append(s.ExecWarm, since(began))
			}
		}
		if b.transfer == 0 {
			return nil
		}
		return transfer(ctx, l, b.transfer, s)
	})
}

// launch starts a machine in every place at once, and ends them when all run.
func (b *bare) launch(s *samples) error {
	var all errgroup.Group
	var mu sync.Mutex
	began, last := time.Now(), 0.0
	done := make(chan struct{})
	var up sync.WaitGroup
	up.Add(len(b.places))
	for _, p := range b.places {
		all.Go(func() error {
			reached := sync.OnceFunc(up.Done)
			defer reached()
			return b.live(p, false, func(_ context.Context, took float64, _ *machine) error {
				mu.Lock()
				s.Create = append(s.Create, took)
				last = max(last, since(began))
				mu.Unlock()
				reached()
				<-done
				return nil
			})
		})
	}
	up.Wait()
	close(done)
	s.Wall = []float64{last}
	return all.Wait()
}

// live starts a machine of the snapshot and calls f with it when it runs, with the milliseconds that it took.
func (b *bare) live(p place, show bool, f func(ctx context.Context, took float64, m *machine) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), roundDeadline)
	defer cancel()
	dir, err := os.MkdirTemp(b.scratch, "bare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	m, err := b.load(ctx, image{b.snapshot, b.memory}, dir, p, show)
	if err != nil {
		return err
	}
	defer m.end()
	return f(ctx, since(began), m)
}

// image is what a machine is loaded from: a directory with its files, and the memory, which the machine maps privately.
type image struct {
	dir    string
	memory *os.File
}

// machine is one that runs.
type machine struct {
	from image
	dir  string
	qemu *exec.Cmd
	link *link.Link // nil while it stands still
}

// end ends a machine. It may be repeated.
func (m *machine) end() {
	m.unlink()
	if m.qemu.ProcessState == nil {
		m.qemu.Process.Kill()
		m.qemu.Wait()
	}
}

func (m *machine) unlink() {
	if m.link != nil {
		m.link.Close()
		m.link = nil
	}
}

// load clones the disk of an image and starts QEMU on the clone; it returns when the guest has acknowledged.
func (b *bare) load(ctx context.Context, from image, dir string, p place, show bool) (*machine, error) {
	if err := clone(filepath.Join(from.dir, "disk.img"), filepath.Join(dir, "disk.img")); err != nil {
		return nil, err
	}
	state, err := os.Open(filepath.Join(from.dir, "state.bin"))
	if err != nil {
		return nil, err
	}
	defer state.Close()
	monitor, err := listen(filepath.Join(dir, "monitor.sock"))
	if err != nil {
		return nil, err
	}
	defer monitor.Close()
	port, err := listen(filepath.Join(dir, "link.sock"))
	if err != nil {
		return nil, err
	}
	defer port.Close()
	qemu := exec.Command("qemu-system-x86_64", b.args(dir)...)
	qemu.ExtraFiles = []*os.File{monitor, port, p.tap, state, from.memory} // 3, 4, 5, 6, 7
	qemu.Stderr = os.Stderr
	if show {
		log.Print(strings.Join(qemu.Args, " "))
	}
	if err := qemu.Start(); err != nil {
		return nil, err
	}
	m := &machine{from: from, dir: dir, qemu: qemu}
	if err := m.meet(ctx); err != nil {
		m.end()
		return nil, err
	}
	return m, nil
}

// args is the machine of the base snapshot: its devices and their order must be those that it was saved with.
func (b *bare) args(dir string) []string {
	m := b.manifest.VMM
	return []string{
		"-M", "microvm,acpi=on,ioapic2=off,rtc=on,isa-serial=off,memory-backend=ram,suppress-vmdesc=on",
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-accel", "tcg,tb-size=128", "-cpu", m.CPU, "-smp", fmt.Sprint(m.VCPUs), "-m", fmt.Sprintf("%dB", m.MemoryBytes),
		"-object", fmt.Sprintf("memory-backend-file,id=ram,size=%d,mem-path=/proc/self/fd/7,merge=off,dump=off,share=off", m.MemoryBytes),
		"-global", "virtio-mmio.force-legacy=false", "-global", "migration.send-configuration=off",
		"-chardev", "socket,id=monitor,fd=3,server=on,wait=off", "-mon", "chardev=monitor,mode=control",
		"-chardev", "socket,id=link,fd=4,server=on,wait=off",
		"-device", "virtio-serial-device,id=serial,max_ports=2", "-device", "virtserialport,bus=serial.0,chardev=link,nr=1,name=space.link",
		"-drive", "id=disk,if=none,format=raw,discard=unmap,file=" + filepath.Join(dir, "disk.img"), "-device", "virtio-blk-device,drive=disk",
		"-netdev", "tap,id=net,fd=5", "-device", "virtio-net-device,netdev=net,mac=06:00:ac:10:00:02",
		"-object", "rng-builtin,id=rng", "-device", "virtio-rng-device,rng=rng",
		"-incoming", "fd:6",
	}
}

// meet lets the machine run as soon as its state is loaded, and greets the guest.
func (m *machine) meet(ctx context.Context) error {
	mon, err := m.monitor(ctx)
	if err != nil {
		return err
	}
	defer mon.Close()
	if err := mon.resume(); err != nil {
		return err
	}
	return m.greet(ctx, true)
}

// greet makes a link to the guest. adopt says that it was another machine so far.
func (m *machine) greet(ctx context.Context, adopt bool) error {
	port, err := net.Dial("unix", filepath.Join(m.dir, "link.sock"))
	if err != nil {
		return err
	}
	m.link, err = link.Host(ctx, port, link.Sync{Execution: "exe_bare", Epoch: 1, Adopt: adopt, Hostname: "bare"})
	return err
}

// monitor is a conversation with QEMU.
type monitor struct {
	net.Conn
	in *json.Decoder
}

func (m *machine) monitor(ctx context.Context) (*monitor, error) {
	c, err := net.Dial("unix", filepath.Join(m.dir, "monitor.sock"))
	if err != nil {
		return nil, err
	}
	if d, ok := ctx.Deadline(); ok {
		c.SetDeadline(d)
	}
	mon := &monitor{c, json.NewDecoder(c)}
	if _, err := mon.ask("qmp_capabilities", nil); err != nil {
		c.Close()
		return nil, err
	}
	return mon, nil
}

// ask runs a command and returns its answer.
func (m *monitor) ask(command string, arguments map[string]any) (map[string]any, error) {
	order := map[string]any{"execute": command}
	if arguments != nil {
		order["arguments"] = arguments
	}
	if err := json.NewEncoder(m).Encode(order); err != nil {
		return nil, err
	}
	for {
		var answer map[string]any
		if err := m.in.Decode(&answer); err != nil {
			return nil, err
		}
		if e, ok := answer["error"]; ok {
			return nil, fmt.Errorf("%s: %v", command, e)
		}
		if r, ok := answer["return"].(map[string]any); ok {
			return r, nil
		}
	}
}

// resume waits until the incoming state is loaded, then sends cont.
func (m *monitor) resume() error {
	for {
		r, err := m.ask("query-migrate", nil)
		if err != nil {
			return err
		}
		switch r["status"] {
		case "completed":
			_, err := m.ask("cont", nil)
			return err
		case "failed":
			return errors.New("the snapshot can't be loaded")
		}
		time.Sleep(time.Millisecond) // QEMU has no event for it here
	}
}

// echo runs /bin/echo and reads to its exit.
func echo(ctx context.Context, l *link.Link, session string) error {
	s, err := call(ctx, l, &guestv1.Call{Call: &guestv1.Call_OpenSession{OpenSession: &guestv1.OpenSession{
		Session: session, Spec: &sessionv1.Spec{Argv: []string{"/bin/echo", "hello"}},
	}}})
	if err != nil {
		return err
	}
	defer s.Reset(link.CodeCancelled)
	for {
		m := new(guestv1.FromSession)
		if err := receive(ctx, s, m); err != nil {
			return err
		}
		if e := m.GetExit(); e != nil {
			if e.Code != 0 || e.Offset != uint64(len("hello\n")) {
				return fmt.Errorf("echo: %v", e)
			}
			return nil
		}
	}
}

func listen(path string) (*os.File, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	return l.File()
}

func clone(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	if err := unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())); err != nil {
		return fmt.Errorf("clone %s: %w", from, err)
	}
	return nil
}

func since(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }
