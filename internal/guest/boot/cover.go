package boot

import (
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/guest/machine"
)

// Where a machine's names are.
const (
	bootIDPath = "/proc/sys/kernel/random/boot_id"
	hostsPath  = "/etc/hosts"
)

// machineIDPaths are where images have a machine's id. Often the second leads to the first.
var machineIDPaths = []string{"/etc/machine-id", "/var/lib/dbus/machine-id"}

// coverNames mounts files in memory over those that name the machine. A file that the image hasn't isn't made.
func coverNames() (c machine.Covers) {
	c.Hosts = cover(hostsPath, "hosts", 0o644)
	paths := machineIDPaths
	if builds() {
		paths = nil // a step of the build may remove it
	}
	for i, p := range paths {
		info, err := os.Lstat(p)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if f := cover(p, "machine-id"+[]string{"", "-dbus"}[i], 0o444); f != nil {
			c.MachineID = append(c.MachineID, f)
		}
	}
	if c.BootID = cover(bootIDPath, "boot-id", 0o444); c.BootID != nil {
		keepWhole()
	}
	return c
}

// builds tells whether this machine is there to change a template's disk.
func builds() bool {
	b, err := os.ReadFile("/proc/cmdline")
	return err == nil && slices.Contains(strings.Fields(string(b)), link.BuildArgument)
}

// cover mounts a copy of a file over it and returns the copy; nil if there is no such file.
func cover(file, name string, mode os.FileMode) *os.File {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	f, err := os.OpenFile(path.Join(runDir, name), os.O_CREATE|os.O_EXCL|os.O_RDWR, mode)
	if err != nil {
		return nil
	}
	if _, err := f.Write(content); err != nil || unix.Mount(f.Name(), file, "", unix.MS_BIND, "") != nil {
		f.Close()
		return nil
	}
	return f
}

// keepWhole mounts proc once more, where nobody looks. The kernel lets a user namespace mount a proc only where it can see one that nothing is mounted
// over: containers without root would have none otherwise.
func keepWhole() {
	hidden := path.Join(runDir, "whole")
	if os.Mkdir(hidden, 0o700) != nil {
		return
	}
	mountAll([]mount{{"proc", path.Join(hidden, "proc"), "proc", safest, ""}}) // without it only that is missing
}
