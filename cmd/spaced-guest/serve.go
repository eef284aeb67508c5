package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/guest"
	"github.com/space-platform/space/internal/guest/account"
	"github.com/space-platform/space/internal/guest/figures"
	"github.com/space-platform/space/internal/guest/files"
	"github.com/space-platform/space/internal/guest/process"
	"github.com/space-platform/space/internal/guest/serial"
)

// serveConfig is how to serve as an ordinary process.
type serveConfig struct {
	unix string
	fd   int
	root string
}

// serve serves until SIGTERM. Commands that still run then are killed, and so they are when this process is.
func (c serveConfig) serve() error {
	port, err := c.port()
	if err != nil {
		return err
	}
	if c.root != "/" {
		if err := errors.Join(syscall.Chroot(c.root), os.Chdir("/")); err != nil {
			return fmt.Errorf("change the root to %s: %w", c.root, err)
		}
	}
	syscall.Umask(0o022) // as in a machine
	reaper := process.NewReaper()
	if err := reaper.Adopt(); err != nil {
		return err
	}
	go reaper.Run() // until this process ends
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	s := guest.Server{
		Sessions: process.NewTable(reaper, process.Attributes{DieWithParent: true}),
		Files:    files.NewService(account.System),
		Figures:  figures.Here,
		Hooks:    link.Hooks{Sync: func(link.Sync) error { return nil }, Clock: func(time.Time) error { return nil }},
		WriteOut: syscall.Sync,
		Freeze:   func() error { return nil },
		Quiesce:  func() (unwritten, err error) { syscall.Sync(); return nil, nil },
	}
	err = s.Serve(ctx, port)
	s.Sessions.KillAll()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// port opens the socket that stands for the machine's port.
func (c serveConfig) port() (*serial.Socket, error) {
	if c.unix != "" {
		return serial.ListenUnix(c.unix)
	}
	f := os.NewFile(uintptr(c.fd), "listener")
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("use descriptor %d as a listening socket: %w", c.fd, err)
	}
	return serial.NewSocket(l), nil
}
