package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/uids"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/selftest"
)

const (
	// selftestTimeout bounds the test of the driver: it takes four seconds under emulation, and more on a loaded machine.
	selftestTimeout = 3 * time.Minute
	// selftestID names its enclosure.
	selftestID = "selftest"
	// testedName is the file in the data directory that says what was tested last, and testedBytes its limit.
	testedName  = "selftest.json"
	testedBytes = 4 << 10
)

// tested is what a test of the driver was about. What works once works until one of these changes.
type tested struct {
	Driver       string `json:"driver"`
	Acceleration string `json:"acceleration"`
	Version      string `json:"version"` // of the driver's VMM
	Kernel       string `json:"kernel"`  // digest, with the guest
	Paged        bool   `json:"paged,omitempty"`
}

func testedOf(c Config) tested {
	v := c.Driver.Capabilities()
	return tested{Driver: c.Driver.Name(), Acceleration: v.Acceleration, Version: v.Version, Kernel: c.Kernel.Digest, Paged: c.Paged}
}

// testDriver refuses a driver that doesn't work here, before anybody's sandbox finds out. It costs nothing when the same was tested before. A full
// volume is no reason: only who comes in can make room.
func (h *Host) testDriver(ctx context.Context, c Config, pool *uids.Pool) error {
	path, now := filepath.Join(c.DataDir, testedName), testedOf(c)
	var last tested
	if err := durable.ReadJSON(path, testedBytes, &last); err == nil && last == now {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Warn("can't read what was tested last", "err", err)
	}
	if err := room(c.Volume.Usage); err != nil {
		slog.Warn("the driver isn't tested", "why", err)
		return nil
	}
	begun := time.Now()
	limited, cancel := context.WithTimeout(ctx, selftestTimeout)
	defer cancel()
	test := selftest.Test{Driver: c.Driver, Paged: c.Paged, Kernel: c.Kernel.Vmlinux, Initrd: c.Kernel.Initrd, Dir: c.Volume.Path, Enclose: h.testEnclosure(pool)}
	if err := test.Run(limited); err != nil {
		return fmt.Errorf("this node can't run machines: %w", err)
	}
	slog.Info("the driver works", "driver", now.Driver, "acceleration", now.Acceleration, "version", now.Version, "took", time.Since(begun))
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return fmt.Errorf("note that the driver works: %w", err)
	}
	if err := durable.WriteJSON(path, now, 0o600); err != nil {
		slog.Warn("can't note that the driver works; it's tested again at the next start", "err", err)
	}
	return nil
}

// testEnclosure makes enclosures as sandboxes have them.
func (h *Host) testEnclosure(pool *uids.Pool) func(context.Context) (vmm.Enclosure, func() error, error) {
	return func(ctx context.Context) (vmm.Enclosure, func() error, error) {
		uid, err := pool.Take()
		if err != nil {
			return vmm.Enclosure{}, nil, err
		}
		spec := machine.Enclosure(selftestID, uid, selftest.Shape)
		e, err := h.jail.Enclose(ctx, spec)
		if err != nil {
			pool.Give(uid)
			return vmm.Enclosure{}, nil, err
		}
		return e, func() error {
			if err := h.jail.Remove(context.WithoutCancel(ctx), spec); err != nil {
				return err // and something may run under the uid
			}
			pool.Give(uid)
			return nil
		}, nil
	}
}
