// Command l1 runs a command in an outer guest, an L1: a machine under software emulation whose processor has virtualisation, so that KVM and what
// needs it can be tested where the host has none that works.
//
//	l1 [flags] -- COMMAND [ARGUMENT…]
//
// The command's output is this one's, and so is its exit code; 125 if the L1 couldn't be made, 124 if it took too long. The same program is the
// L1's first process. Its root file system is made anew each time, from busybox and what the flags name, and is gone afterwards; it has
// no network. The kernel is Debian's for cloud guests, with nothing to compile.
//
//	l1 again PROGRAM [ARGUMENT…]
//
// runs a test binary in it, and once more what has failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/space-platform/space/internal/host/kernel"
)

// exitBroken and exitTimeout are what GNU timeout has for these cases.
const (
	exitTimeout = 124
	exitBroken  = 125
)

// options are what the flags say.
type options struct {
	cache    string // keeps the kernel
	memory   int    // MiB
	cpus     int
	disk     int // MiB
	cgroup   int
	timeout  time.Duration
	console  string // file for the kernel's messages
	kernel   string // where the L1 finds the kernel that sandboxes boot; "" if it needs none
	kinds    list   // of that kernel
	built    string // where 'make kernel' keeps what it builds
	add      list   // HOST=L1
	programs list
	env      list
	command  []string
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func main() {
	if os.Getpid() == 1 {
		live()
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "again" {
		runAgain()
	}
	code, err := run()
	if err != nil {
		fmt.Fprintf(os.Stderr, "l1: %v\n", err)
	}
	os.Exit(code)
}

func parse() (options, error) {
	var o options
	flag.StringVar(&o.cache, "cache", "build/l1", "directory that keeps the kernel")
	flag.IntVar(&o.memory, "memory", 2048, "memory, in MiB")
	flag.IntVar(&o.cpus, "cpus", 2, "processors")
	flag.IntVar(&o.disk, "disk", 4096, "size of the root file system, in MiB")
	flag.IntVar(&o.cgroup, "cgroup", 2, "version of the cgroups, 1 or 2")
	flag.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long all of it may take")
	flag.StringVar(&o.console, "console", "", "file for the console's output; shown when the L1 fails if there is none")
	flag.StringVar(&o.kernel, "kernel", "", "directory of the L1 that gets the kernel which sandboxes boot, as 'space setup' has it")
	flag.Var(&o.kinds, "kind", "kind of that kernel: cloud, or tuned if 'make kernel' has built some (repeatable)")
	flag.StringVar(&o.built, "built", kernel.DefaultCache, "directory with what 'make kernel' has built")
	flag.Var(&o.add, "add", "HOST=L1: a file or directory of the host's and where it is in the L1 (repeatable)")
	flag.Var(&o.programs, "program", "a program of the host's that the L1 gets at the same path, with the libraries it needs (repeatable)")
	flag.Var(&o.env, "env", "NAME=VALUE for the command's environment (repeatable)")
	flag.Parse()
	o.command = flag.Args()
	if len(o.command) == 0 {
		return o, errors.New("no command")
	}
	if o.cgroup != 1 && o.cgroup != 2 {
		return o, fmt.Errorf("cgroups of version %d: want 1 or 2", o.cgroup)
	}
	return o, nil
}

func run() (code int, err error) {
	o, err := parse()
	if err != nil {
		return exitBroken, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	for try := 1; ; try++ {
		code, err = o.try(ctx)
		if ctx.Err() != nil {
			return exitTimeout, fmt.Errorf("it wasn't done after %s: %w", o.timeout, err)
		}
		if !errors.Is(err, errPanicked) || try == tries {
			return code, err
		}
		fmt.Fprintf(os.Stderr, "l1: %v\nl1: once more from the beginning: virtualisation under emulation does that now and then\n", err)
	}
}

// tries is how often an L1 is made whose kernel panics. What the command makes of it happens again.
const tries = 2

// try makes an L1 and runs the command in it.
func (o options) try(ctx context.Context) (code int, err error) {
	dir, err := os.MkdirTemp("", "l1-")
	if err != nil {
		return exitBroken, err
	}
	defer os.RemoveAll(dir)
	return machine{options: o, dir: dir}.run(ctx)
}

// modules are the drivers of the L1: its disk, KVM on AMD's virtualisation, which is what QEMU emulates, and what enclosures and volumes use.
var modules = []string{"virtio_pci", "virtio_blk", "kvm_amd", "tun", "nf_tables", "loop", "btrfs", "overlay", "veth"}

// outerKernel prepares the L1's own kernel, with this program as its first process.
func outerKernel(ctx context.Context, cache string) (kernel.Files, error) {
	return prepare(ctx, kernel.Options{Dir: filepath.Join(cache, "outer"), Kind: kernel.Cloud, Modules: modules})
}

// innerKernel prepares the kernels that sandboxes boot in the L1, and returns their directory. The initramfs there isn't used: a test makes its own.
func innerKernel(ctx context.Context, o options) (string, error) {
	dir := filepath.Join(o.cache, "inner")
	for _, kind := range o.kinds {
		if _, err := prepare(ctx, kernel.Options{Dir: dir, Kind: kernel.Kind(kind), Cache: o.built}); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func prepare(ctx context.Context, o kernel.Options) (_ kernel.Files, err error) {
	if o.Guest, err = os.Executable(); err != nil {
		return kernel.Files{}, err
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return kernel.Files{}, err
	}
	o.Progress = func(line string) { fmt.Fprintf(os.Stderr, "l1: %s\n", line) }
	return kernel.Prepare(ctx, o)
}

// tail is the end of a file, for an error.
func tail(path string) string {
	const most = 4 << 10
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size > most {
		f.Seek(-most, io.SeekEnd)
	} else {
		f.Seek(0, io.SeekStart)
	}
	b, _ := io.ReadAll(io.LimitReader(f, most))
	return string(b)
}
