// Command l1 runs a command in an outer guest, an L1: a machine under software emulation whose processor has virtualisation, so that KVM and what
// needs it can be tested where the host has none that works.
//
//	l1 [flags] -- COMMAND [ARGUMENT…]
//
// The command's output is this one's, and so is its exit code; 125 if the L1 couldn't be made, 124 if it took too long. The same program is the
// L1's first process. Its root file system is made anew each time, from busybox and what the flags name, and is gone afterwards; it has
// no network. The kernel is Debian's for cloud guests, with nothing to compile.
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
	dir, err := os.MkdirTemp("", "l1-")
	if err != nil {
		return exitBroken, err
	}
	defer os.RemoveAll(dir)
	m := machine{options: o, dir: dir}
	code, err = m.run(ctx)
	if ctx.Err() != nil {
		return exitTimeout, fmt.Errorf("it wasn't done after %s: %w", o.timeout, err)
	}
	return code, err
}

// modules are the drivers of the L1: its disk, KVM on AMD's virtualisation, which is what QEMU emulates, and what enclosures and volumes use.
var modules = []string{"virtio_pci", "virtio_blk", "kvm_amd", "tun", "nf_tables", "loop", "btrfs", "overlay", "veth"}

// kernelFiles prepares the L1's kernel, with this program as its first process.
func kernelFiles(ctx context.Context, cache string) (kernel.Files, error) {
	self, err := os.Executable()
	if err != nil {
		return kernel.Files{}, err
	}
	dir, err := filepath.Abs(cache)
	if err != nil {
		return kernel.Files{}, err
	}
	return kernel.Prepare(ctx, kernel.Options{
		Dir: dir, Guest: self, Kind: kernel.Cloud, Modules: modules, Progress: func(line string) { fmt.Fprintf(os.Stderr, "l1: %s\n", line) },
	})
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
