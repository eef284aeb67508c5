//go:build load

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/guest"
	"github.com/space-platform/space/internal/guest/account"
	"github.com/space-platform/space/internal/guest/figures"
	"github.com/space-platform/space/internal/guest/files"
	"github.com/space-platform/space/internal/guest/process"
	"github.com/space-platform/space/internal/guest/serial"
	"github.com/space-platform/space/internal/host/loadtest"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/fake"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

// What the configuration's driver says in a build for load tests: what a machine is.
const (
	machineIsProcess = "fake"        // the usual: it outlives the daemon
	machineIsInside  = "fake-inside" // it costs next to nothing
)

// hostRole takes the place of the real host in builds for load tests, which have no other.
func hostRole() *cobra.Command {
	return roleCommand(instance.Host, "Run a host of fake machines", func(ctx context.Context, i instance.Instance, c instance.Config, o *telemetry.Ops) error {
		d, err := fakeDriver(c.Driver)
		if err != nil {
			return err
		}
		h, err := loadtest.Open(ctx, i, d, version)
		if err != nil {
			return err
		}
		defer h.Close()
		l, err := peer.Listen(i.Socket(instance.Host), i.UID(instance.Manager))
		if err != nil {
			return err
		}
		telemetry.Register(h.Figures())
		o.Ready(nil)
		return peer.Serve(ctx, l, h.Handler())
	})
}

func fakeDriver(name string) (vmm.Driver, error) {
	switch name {
	case "", machineIsProcess:
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		return fake.New(filepath.Join(filepath.Dir(self), guestProgram))
	case machineIsInside:
		return fake.NewInside(serveInside())
	}
	return nil, fmt.Errorf("configuration: driver %q: this build is for load tests and has %q and %q", name, machineIsProcess, machineIsInside)
}

// serveInside is an agent as spaced-guest is one, for any number of machines of this process.
func serveInside() fake.Serve {
	reaper := process.NewReaper()
	go reaper.Run() // until this process ends
	return func(ctx context.Context, l net.Listener) error {
		s := guest.Server{
			Sessions: process.NewTable(reaper, process.Attributes{DieWithParent: true}),
			Files:    files.NewService(account.System),
			Figures:  figures.Here,
			Hooks:    link.Hooks{Sync: func(link.Sync) error { return nil }, Clock: func(time.Time) error { return nil }},
			WriteOut: func() {},
			Freeze:   func() error { return nil },
			Quiesce:  func() (unwritten, err error) { return nil, nil },
		}
		err := s.Serve(ctx, serial.NewSocket(l))
		s.Sessions.KillAll()
		return err
	}
}
