//go:build e2e && (long || firecracker)

package e2e

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/host/disk/btrfs"
)

// sleeper is a suspended sandbox and its snapshot's directory.
type sleeper struct {
	box client.Sandbox
	pid string
	dir string
}

func suspended(t *testing.T) sleeper {
	t.Helper()
	x := sleeper{box: create(t, "mini")}
	x.pid = remember(t, x.box, "old")
	now := verb(t, x.box.Id, "suspend")
	if now.RecoveryPoint == nil {
		t.Fatalf("a suspended sandbox has no snapshot: %+v", now)
	}
	x.dir = filepath.Join(platform.instance.Volume(), "snapshots", strings.TrimPrefix(now.RecoveryPoint.Snapshot, "snp_"))
	return x
}

// writable lets a snapshot's directory be changed.
func writable(dir string, change func() error) error {
	if err := btrfs.SetReadOnly(dir, false); err != nil {
		return err
	}
	return errors.Join(change(), btrfs.SetReadOnly(dir, true))
}
