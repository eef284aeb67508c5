//go:build e2e && long

package e2e

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/host/disk/btrfs"
)

// lookDeadline is how long it takes at most until a node has seen by itself, and twice told, that a snapshot isn't there: it looks each minute.
const lookDeadline = 3 * time.Minute

// TestLongDamageIsSeenInTheSameLife damages snapshots of suspended sandboxes below a running node. What is gone is lost, without a restart of anything and though nobody wants it; of what is
// another one nothing is loaded, and its disk can be booted. What is left stays until the sandbox is deleted.
func TestLongDamageIsSeenInTheSameLife(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(dir string) error
		lost   bool
		left   bool // its directory
	}{
		"it's gone": {damage: btrfs.Delete, lost: true},
		"no disk": {damage: func(dir string) error {
			return writable(dir, func() error { return os.Remove(filepath.Join(dir, "disk.img")) })
		}, lost: true, left: true},
		"another manifest": {damage: func(dir string) error {
			return writable(dir, func() error {
				path := filepath.Join(dir, "manifest.json")
				text, err := os.ReadFile(path)
				return errors.Join(err, os.WriteFile(path, bytes.Replace(text, []byte(`"pause_nanos": 0`), []byte(`"pause_nanos": 1`), 1), 0o600))
			})
		}, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			x := suspended(t)
			if err := c.damage(x.dir); err != nil {
				t.Fatal(err)
			}
			if c.lost {
				eventually(t, lookDeadline, "the sandbox is lost", func() bool {
					now, err := platform.client.GetSandbox(t.Context(), x.box.Id)
					return err == nil && now.State == "lost" && now.Error != nil
				})
			} else {
				eventually(t, lookDeadline, "the snapshot is shown as damaged", func() bool {
					now, err := platform.client.GetSnapshot(t.Context(), "snp_"+filepath.Base(x.dir))
					return err == nil && now.State == "damaged" && now.Error != nil
				})
				_, err := platform.client.RestoreSandbox(t.Context(), x.box.Id, false)
				wantCode(t, err, "snapshot_unusable")
				now, err := platform.client.RestoreSandbox(t.Context(), x.box.Id, true)
				if err != nil {
					t.Fatal(err)
				}
				runIn(t, now, client.SessionCreate{Argv: argv("cat", "/root/note"), User: ptr("root")}).want(t, 0, "old", "")
			}
			if _, err := os.Stat(x.dir); (err == nil) != c.left {
				t.Errorf("its directory: %v", err)
			}
			if err := platform.client.DeleteSandbox(t.Context(), x.box.Id); err != nil {
				t.Fatal(err)
			}
			eventually(t, callDeadline, "nothing is left of it", func() bool { _, err := os.Stat(x.dir); return errors.Is(err, os.ErrNotExist) })
		})
	}
}
