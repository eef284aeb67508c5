package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
)

// Where a machine's files are, inside its enclosure.
const (
	kernelPath = "/vm/kernel"
	initrdPath = "/vm/initrd"
	memoryPath = "/vm/memory"
	diskPath   = "/vm/disk"
)

// kvmDevice is hardware virtualisation, which QEMU opens by this path only. An enclosure has no device that it isn't given.
const kvmDevice = "/dev/kvm"

// firstFD is the first descriptor of a Command's files.
const firstFD = 3

// Boot starts a machine with a kernel.
func (d *Driver) Boot(ctx context.Context, e vmm.Enclosure, b vmm.Boot) (vmm.Machine, error) {
	l := d.Line(e, b.Shape, b.Disk)
	l.Kernel, l.Initrd = kernelPath, initrdPath
	l.Append = kernelArgs(d.config.Acceleration, d.tscKHz, b.Args)
	f := files{memory: b.Memory, disk: b.Disk, bind: map[string]vmm.Source{kernelPath: {Path: b.Kernel}, initrdPath: {Path: b.Initrd}}}
	if b.Memory == "" {
		own, err := newMemory(b.Shape.MemoryBytes)
		if err != nil {
			return nil, fmt.Errorf("boot machine %s: %w", e.ID, err)
		}
		f.memfd = own
	} else {
		f.bind[memoryPath] = vmm.Source{Path: b.Memory, Writable: true}
	}
	m, err := d.start(ctx, e, l, f)
	if err != nil {
		if f.memfd != nil {
			f.memfd.Close()
		}
		return nil, fmt.Errorf("boot machine %s: %w", e.ID, err)
	}
	m.memory = f.memfd
	return m.started(), nil
}

// Load starts a machine from a snapshot.
func (d *Driver) Load(ctx context.Context, e vmm.Enclosure, s vmm.Load) (vmm.Machine, error) {
	l := d.Line(e, s.Shape, s.Disk)
	if err := s.Manifest.Fits(d.manifest(l)); err != nil {
		return nil, fmt.Errorf("load machine %s: %w", e.ID, err)
	}
	bind := map[string]vmm.Source{}
	if s.Sealed == nil {
		bind[memoryPath] = vmm.Source{Path: s.Memory, Writable: !l.ReadOnly}
	}
	m, err := d.start(ctx, e, l, files{memory: s.Memory, memfd: s.Sealed, disk: s.Disk, state: s.State, bind: bind})
	if err != nil {
		return nil, fmt.Errorf("load machine %s: %w", e.ID, err)
	}
	if err := m.awaitIncoming(ctx); err != nil {
		return nil, fmt.Errorf("load machine %s: %w", e.ID, m.abandon(ctx, err))
	}
	return m.started(), nil
}

// Line is what a boot and a load of a machine have in common. A benchmark that starts QEMU by hand begins with it, and puts its own paths and
// descriptors in.
func (d *Driver) Line(e vmm.Enclosure, s vmm.Shape, disk string) Line {
	l := Line{Name: e.ID, Acceleration: d.config.Acceleration, Shape: s, Memory: memoryPath, ReadOnly: d.readOnlyMemory()}
	if disk != "" {
		l.Disk = diskPath
	}
	if e.Tap != "" {
		l.MAC = e.MAC
	}
	return l
}

// files are a machine's, on the host.
type files struct {
	memory string
	memfd  *os.File // instead of memory
	disk   string
	state  string // "" for a boot
	bind   map[string]vmm.Source
}

// start starts QEMU and returns when its monitor answers: it has found all its files and devices then.
func (d *Driver) start(ctx context.Context, e vmm.Enclosure, l Line, f files) (*machine, error) {
	if f.memfd != nil {
		f.memory = fmt.Sprintf("/proc/self/fd/%d", f.memfd.Fd())
	}
	memory, err := inspect(f.memory, l.Shape.MemoryBytes)
	if err != nil {
		return nil, err
	}
	if l.Acceleration == "kvm" {
		f.bind[kvmDevice] = vmm.Source{Path: kvmDevice, Writable: true}
	}
	if f.disk != "" {
		f.bind[diskPath] = vmm.Source{Path: f.disk, Writable: true}
	}
	s := spec{
		ID: e.ID, Monitor: filepath.Join(e.Dir, "monitor.sock"), Link: filepath.Join(e.Dir, "link.sock"),
		Memory: memory, Private: l.Kernel == "", Manifest: d.manifest(l),
	}
	given, err := open(e, &l, &s, f)
	if err != nil {
		return nil, err
	}
	p, said, err := d.spawn(ctx, e, l, given, f)
	given.close() // at once: a connection to a socket that we hold open wouldn't end with QEMU
	if err != nil {
		return nil, err
	}
	m := d.newMachine(p, said, s)
	if err := m.connect(ctx); err != nil {
		return nil, m.abandon(ctx, err)
	}
	return m, nil
}

// spawn runs QEMU in the enclosure.
func (d *Driver) spawn(ctx context.Context, e vmm.Enclosure, l Line, given openFiles, f files) (*monitor.Process, *monitor.Said, error) {
	said, out, err := monitor.NewSaid()
	if err != nil {
		return nil, nil, err
	}
	defer out.Close()
	p, err := e.Starter.Start(ctx, vmm.Command{
		Path: d.config.Program, Args: l.Args(), Files: given, Bind: f.bind, Log: out, Proc: f.memfd != nil,
	})
	if err != nil {
		said.Close()
		return nil, nil, fmt.Errorf("start QEMU: %w", err)
	}
	return monitor.Adopt(p, e.UID, d.bootID), said, nil
}

// openFiles are what QEMU inherits.
type openFiles []*os.File

func (o openFiles) close() {
	for _, f := range o {
		f.Close()
	}
}

// open opens what QEMU inherits and writes the descriptors into the line, and that of the memory into the spec.
func open(e vmm.Enclosure, l *Line, s *spec, from files) (given openFiles, err error) {
	defer func() {
		if err != nil {
			given.close()
			given = nil
		}
	}()
	add := func(fd *int, f *os.File, ferr error) {
		if ferr != nil {
			err = errors.Join(err, ferr)
			return
		}
		*fd = firstFD + len(given)
		given = append(given, f)
	}
	f, ferr := monitor.Bind(s.Monitor)
	add(&l.Monitor, f, ferr)
	f, ferr = monitor.Bind(s.Link)
	add(&l.Link, f, ferr)
	if l.MAC != "" {
		f, ferr = openTap(e.NetNS, e.Tap)
		add(&l.Tap, f, ferr)
	}
	if from.state != "" {
		f, ferr = os.Open(from.state)
		add(&l.State, f, ferr)
	}
	if from.memfd != nil {
		f, ferr = os.Open(from.memory)
		add(&s.Memory.FD, f, ferr)
		l.Memory = fmt.Sprintf("/proc/self/fd/%d", s.Memory.FD)
	}
	return given, err
}
