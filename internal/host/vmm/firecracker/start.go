package firecracker

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
)

// Where the programs are in an enclosure, and where the jailer makes Firecracker's root directory.
const (
	jailerPath  = "/vmm/jailer"
	programPath = "/vmm/firecracker"
	jailPath    = "/jail"
)

const (
	// maxState bounds the device state of a snapshot; it has some ten thousand bytes.
	maxState = 16 << 20
	// maxFiles is how many descriptors Firecracker may have. The jailer sets it, and would set more by itself.
	maxFiles = 1024
	// minFileBytes is how far it may write into a file, at least.
	minFileBytes = 256 << 20
)

// files are a machine's, on the host.
type files struct {
	memory   string // "" for none
	writable bool   // whether memory is written by Firecracker
	paged    bool   // whether memory isn't Firecracker's to open
	disk     string
	bind     map[string]vmm.Source // others, by Firecracker's paths
	outside  map[string]vmm.Source // for the jailer, by its paths
}

// start starts Firecracker and returns when its API answers.
func (d *Driver) start(ctx context.Context, e vmm.Enclosure, shape vmm.Shape, s spec, f files) (*machine, error) {
	if err := f.check(shape); err != nil {
		return nil, err
	}
	p, said, err := d.spawn(ctx, e, shape, f)
	if err != nil {
		return nil, err
	}
	m := d.newMachine(p, said, e.Starter, s, d.version)
	i, err := m.api.Instance(ctx)
	if err == nil && i.Version != d.version.String() {
		err = fmt.Errorf("Firecracker is version %s, and was %s when this daemon started: the program was exchanged", i.Version, d.version)
	}
	if err != nil {
		return nil, m.abandon(ctx, err)
	}
	return m, nil
}

// check refuses files that Firecracker would fail with late, or change.
func (f files) check(shape vmm.Shape) error {
	const mib = 1 << 20
	if shape.MemoryBytes <= 0 || shape.MemoryBytes%mib != 0 {
		return fmt.Errorf("memory of %d bytes: want a multiple of %d", shape.MemoryBytes, mib)
	}
	if f.memory == "" {
		return nil
	}
	info, err := os.Stat(f.memory)
	if err != nil {
		return fmt.Errorf("look at the memory file: %w", err)
	}
	if info.Size() != shape.MemoryBytes {
		return fmt.Errorf("memory file %s has %d bytes, the machine %d", f.memory, info.Size(), shape.MemoryBytes)
	}
	return nil
}

// spawn runs Firecracker in the enclosure. Its output must never break, even when the daemon dies: its handler of SIGPIPE writes to the log that
// it has interrupted, and waits for itself.
func (d *Driver) spawn(ctx context.Context, e vmm.Enclosure, shape vmm.Shape, f files) (*monitor.Process, *monitor.Said, error) {
	said, out, err := monitor.NewLastingSaid()
	if err != nil {
		return nil, nil, err
	}
	defer out.Close()
	p, err := e.Starter.Start(ctx, d.command(e, shape, f, out))
	if err != nil {
		said.Close()
		return nil, nil, fmt.Errorf("start Firecracker: %w", err)
	}
	return monitor.Adopt(p, e.UID, d.bootID), said, nil
}

// command is the jailer with its arguments, and the files where it and Firecracker find them.
func (d *Driver) command(e vmm.Enclosure, shape vmm.Shape, f files, out *os.File) vmm.Command {
	id := jailID(e.ID)
	root := filepath.Join(jailPath, filepath.Base(programPath), id, "root")
	bind := map[string]vmm.Source{
		jailerPath:  {Path: d.config.Jailer, Executable: true},
		programPath: {Path: d.config.Program},
	}
	if f.disk != "" {
		bind[root+diskPath] = vmm.Source{Path: f.disk, Writable: true}
	}
	if f.memory != "" && !f.paged {
		bind[root+memoryPath] = vmm.Source{Path: f.memory, Writable: f.writable}
	}
	for path, src := range f.bind {
		bind[root+path] = src
	}
	maps.Copy(bind, f.outside)
	limit := fileLimit(shape, f)
	uid := strconv.Itoa(e.UID)
	return vmm.Command{
		Path: jailerPath,
		Args: []string{
			"--id", id, "--exec-file", programPath, "--uid", uid, "--gid", uid, "--chroot-base-dir", jailPath,
			"--cgroup-version", "1", // it's asked for no group: it's in the enclosure's
			"--resource-limit", fmt.Sprintf("no-file=%d", maxFiles), "--resource-limit", fmt.Sprintf("fsize=%d", limit),
			"--", "--api-sock", apiSocket, "--level", "Warning",
		},
		Bind: bind, Places: []string{root + savedStatePath, root + savedMemoryPath}, FileBytes: limit, Log: out, Jailer: jailPath,
	}
}

// jailID is an enclosure's id with the characters that the jailer takes.
func jailID(id string) string { return strings.ReplaceAll(id, "_", "-") }

// fileLimit is how far Firecracker may write into a file: to the end of its disk, or of its memory's.
func fileLimit(shape vmm.Shape, f files) int64 {
	limit := max(minFileBytes, shape.MemoryBytes)
	if info, err := os.Stat(f.disk); err == nil {
		limit = max(limit, info.Size())
	}
	return limit
}

// copyState copies a snapshot's device state to where the machine's user may read it, and nobody else may change it.
func copyState(e vmm.Enclosure, from string) (path string, err error) {
	src, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer src.Close()
	path = filepath.Join(e.Dir, "state")
	b, err := io.ReadAll(io.LimitReader(src, maxState+1))
	if err != nil {
		return "", fmt.Errorf("read device state: %w", err)
	}
	if len(b) > maxState {
		return "", fmt.Errorf("device state %s has more than %d bytes", from, maxState)
	}
	if err := os.WriteFile(path, b, 0o400); err != nil {
		return "", err
	}
	return path, os.Chown(path, e.UID, e.UID)
}
