// Package figures is what a guest says of its own use of its machine.
package figures

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// Machine is where the figures are: the kernel's directory of processes, and a directory on the disk.
type Machine struct{ Proc, Disk string }

// Here is this machine.
var Here = Machine{Proc: "/proc", Disk: "/"}

// Measure takes the figures. Memory that the kernel would give back for the asking isn't used.
func (m Machine) Measure() (*sandboxv1.GuestUsage, error) {
	u := &sandboxv1.GuestUsage{}
	for _, measure := range []func(*sandboxv1.GuestUsage) error{m.memory, m.disk, m.processes, m.load} {
		if err := measure(u); err != nil {
			return nil, fmt.Errorf("measure the guest: %w", err)
		}
	}
	return u, nil
}

func (m Machine) memory(u *sandboxv1.GuestUsage) error {
	f, err := os.Open(path.Join(m.Proc, "meminfo"))
	if err != nil {
		return err
	}
	defer f.Close()
	kb := map[string]uint64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		kb[name], _ = strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
	}
	u.MemoryTotalBytes = kb["MemTotal"] << 10
	u.MemoryUsedBytes = u.MemoryTotalBytes - min(kb["MemAvailable"]<<10, u.MemoryTotalBytes)
	return nil
}

func (m Machine) disk(u *sandboxv1.GuestUsage) error {
	var st unix.Statfs_t
	if err := unix.Statfs(m.Disk, &st); err != nil {
		return err
	}
	u.DiskTotalBytes = st.Blocks * uint64(st.Bsize)
	u.DiskUsedBytes = (st.Blocks - st.Bfree) * uint64(st.Bsize)
	return nil
}

// namesAtOnce is how many names of processes are read at once.
const namesAtOnce = 512

func (m Machine) processes(u *sandboxv1.GuestUsage) error {
	dir, err := os.Open(m.Proc)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(namesAtOnce)
		for _, name := range names {
			if name[0] >= '1' && name[0] <= '9' {
				u.Processes++
			}
		}
		if err != nil {
			return nil // its end
		}
	}
}

// load is the average of the last minute.
func (m Machine) load(u *sandboxv1.GuestUsage) error {
	b, err := os.ReadFile(path.Join(m.Proc, "loadavg"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(b), " ")
	u.Load, err = strconv.ParseFloat(first, 64)
	return err
}
