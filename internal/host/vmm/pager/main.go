package pager

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// Subcommand is the hidden argument with which a program becomes a pager; what follows goes to Main.
const Subcommand = "pager"

const (
	// memoryLimit is the heap at which the pager's garbage collector works as hard as it can. Its buffers and tables take a few MiB.
	memoryLimit = 32 << 20
	// processors bounds the threads that run its code. Reads block others, maxFetches at most.
	processors = 2
)

// The descriptors that a pager is born with, after the standard ones.
const (
	memoryFD   = 3 + iota // the memory's file, to read
	listenerFD            // the socket that the VMM connects to
	reportFD              // where the report goes
	setFD                 // the working set, or the file of a recording
)

// Main is the pager's program. It returns the exit code.
func Main(args []string) int {
	debug.SetMemoryLimit(memoryLimit)
	runtime.GOMAXPROCS(processors)
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	o, err := parse(args)
	if err != nil {
		slog.Error("the pager can't begin", "err", err)
		return 2
	}
	out := os.NewFile(reportFD, "report")
	last := report{Ended: true}
	err = o.run(context.Background(), out, &last)
	if err != nil {
		slog.Error("the pager failed", "err", err)
		last.Failed = err.Error()
	}
	if werr := last.write(out); err != nil || werr != nil {
		return 1
	}
	return 0
}

// options are what the arguments say.
type options struct {
	memory   int64  // bytes
	snapshot string // names the snapshot, for its working set
	prefetch bool   // setFD is a working set
	record   bool   // setFD is the file of a recording
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet(Subcommand, flag.ContinueOnError)
	f.Int64Var(&o.memory, "memory", 0, "bytes of the machine's memory")
	f.StringVar(&o.snapshot, "snapshot", "", "what names the snapshot")
	f.BoolVar(&o.prefetch, "prefetch", false, "bring the working set")
	f.BoolVar(&o.record, "record", false, "record the working set")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.memory <= 0 || o.memory%pageBytes != 0 || o.memory > maxMemory {
		return o, fmt.Errorf("memory of %d bytes", o.memory)
	}
	if o.prefetch && o.record || f.NArg() > 0 {
		return o, errors.New("the arguments contradict each other")
	}
	return o, nil
}

func (o options) run(ctx context.Context, out *os.File, last *report) error {
	source, err := newFile(os.NewFile(memoryFD, "memory"), o.memory)
	if err != nil {
		return err
	}
	if err := confine(); err != nil {
		return err
	}
	c, err := accept(os.NewFile(listenerFD, "socket"))
	if err != nil {
		return fmt.Errorf("wait for the machine's monitor: %w", err)
	}
	defer c.Close()
	u, regions, err := handshake(c, os.Getuid(), o.memory)
	if err != nil {
		return err
	}
	defer u.file.Close()
	if err := c.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if err := (report{Regions: regions}).write(out); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	set, record := o.workingSet()
	s := newServer(u, regions, source, record)
	err = s.serve(ctx, c, set)
	last.Faults, last.Prefetched = s.faults.Load(), s.prefetched.Load()
	return err
}

// accept takes one connection, and closes the door.
func accept(f *os.File) (*net.UnixConn, error) {
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	f.Close()
	u, ok := l.(*net.UnixListener)
	if !ok {
		return nil, errors.New("it's no unix socket")
	}
	u.SetUnlinkOnClose(false)
	deadline := time.Now().Add(handshakeLimit)
	if err := u.SetDeadline(deadline); err != nil {
		return nil, err
	}
	c, err := u.AcceptUnix()
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(deadline)
}

// workingSet is what the machine gets before it asks, or who notes what it asks for. It was good when the machine was started.
func (o options) workingSet() ([]uint32, *recorder) {
	if !o.prefetch && !o.record {
		return nil, nil
	}
	f := os.NewFile(setFD, "working set")
	if o.record {
		return nil, recordTo(f, o.snapshot, o.memory)
	}
	defer f.Close()
	set, err := readSet(f, o.snapshot, o.memory)
	if err != nil {
		slog.Warn("the working set is ignored", "err", err)
	}
	return set, nil
}
