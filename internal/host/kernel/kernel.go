// Package kernel prepares what guests boot: an uncompressed kernel and an initramfs that holds spaced-guest and the modules which the
// kernel needs to see its disk, its network and the link to the host.
//
// There are two kinds of kernels. Tuned ones are what 'make kernel' has built on this machine, one for a single vCPU and one for more, with
// everything built in. Without them it's Debian's own for cloud guests, fetched through apt and never installed on the host. The package knows
// nothing of machines. Its invariant: a directory that Prepare named is complete, since everything is written beside it, synced, and
// renamed into place; so a second Prepare finds it and does next to nothing.
package kernel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Files are what a machine boots.
type Files struct {
	Vmlinux string // path of the kernel for one vCPU: an ELF file with a PVH entry
	SMP     string // path of the kernel for more than one vCPU; of Debian's kernel it's the same
	Initrd  string // path of the initramfs
	Version string // of the kernels, as their package has it
	Tuned   bool   // whether 'make kernel' built them
	Digest  string // of kernels and initramfs together: 64 hexadecimal digits
}

// For returns the path of the kernel for a machine with so many vCPUs.
func (f Files) For(vcpus int) string {
	if vcpus > 1 {
		return f.SMP
	}
	return f.Vmlinux
}

// Options say what to prepare and where.
type Options struct {
	Dir      string            // where the files are kept, root's; made if it's missing
	Guest    string            // path of the spaced-guest binary
	Kind     Kind              // "" for tuned kernels if there are any, else Debian's
	Cache    string            // where 'make kernel' puts what it builds; "" for DefaultCache
	Modules  []string          // the drivers of Debian's kernel that are loaded first; none for those that a sandbox's guest needs
	Update   bool              // fetch the newest of Debian's kernels that apt knows, even if one is there
	Progress func(line string) // is told what happens, a line at a time; nil for nobody
}

// modules are the drivers that Debian's kernel is to have.
func (o Options) modules() []string {
	if o.Modules != nil {
		return o.Modules
	}
	return guestModules
}

// Kind is where kernels are from.
type Kind string

// The kinds. One that is asked for by name is used or it's an error.
const (
	Tuned Kind = "tuned" // what 'make kernel' built
	Cloud Kind = "cloud" // Debian's for cloud guests
)

// Prepare makes the files, or finds those of an earlier call. Several processes may call it for one directory at the same time.
// Without a kernel in the directory or the cache it needs apt's package sources; the context bounds all of it.
func Prepare(ctx context.Context, o Options) (Files, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	o.Cache = cmp.Or(o.Cache, DefaultCache)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return Files{}, fmt.Errorf("prepare the guest kernel: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(o.Dir, "lock"))
	if err != nil {
		return Files{}, fmt.Errorf("prepare the guest kernel: %w", err)
	}
	defer unlock()
	t, err := ensureTree(ctx, o)
	if err != nil {
		return Files{}, fmt.Errorf("prepare the guest kernel: %w", err)
	}
	initrd, sum, err := ensureInitrd(o, t)
	if err != nil {
		return Files{}, fmt.Errorf("prepare the initramfs: %w", err)
	}
	return t.files(initrd, sum), nil
}

func digest(sums ...string) string {
	h := sha256.New()
	for _, s := range sums {
		h.Write([]byte(s + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// lock waits until no other process prepares in the same directory.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if err := pause(ctx); err != nil {
			f.Close()
			return nil, fmt.Errorf("wait for another process that holds %s: %w", path, err)
		}
	}
}
