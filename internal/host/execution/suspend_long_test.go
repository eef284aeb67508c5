//go:build long

package execution

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/disk"
)

// onVolume has a rig's files lie on a real volume, which goes with the test.
func onVolume(t *testing.T, r *rig) {
	t.Helper()
	dir := t.TempDir()
	v := disk.Volume{Path: filepath.Join(dir, "volume"), Image: filepath.Join(dir, "volume.img"), Bytes: disk.MinBytes, Reserve: 1}
	if err := v.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Purge(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r.volume, r.dir = &v, v.Path
	for _, name := range []string{"disk", "mem", "state"} {
		content := make([]byte, 8*mib)
		rand.Read(content)
		if err := os.WriteFile(filepath.Join(r.dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLongThousandSuspends suspends and restores one sandbox a thousand times, which writes something each time, on a real volume: no more of that is used in the
// end than in the beginning.
func TestLongThousandSuspends(t *testing.T) {
	const (
		cycles  = 1000
		settled = 50 // from then on nothing may grow
		mayTake = 32 * mib
	)
	r := newRig(t)
	onVolume(t, r)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	_, ses := begin(t, table, o.Route)
	used := func() int64 {
		t.Helper()
		if err := disk.Sync(filepath.Join(r.dir, "disk")); err != nil {
			t.Fatal(err)
		}
		u, err := r.volume.Usage()
		if err != nil {
			t.Fatal(err)
		}
		return u.Bytes - u.FreeBytes
	}
	var most int64
	var last string
	for cycle := range cycles {
		r.write(t, o, int64(cycle%32)*(mib/4))
		s := suspend(t, r, table, o, snapshotID())
		next := from(s)
		ensure(t, table, next, space.ExecutionRunning)
		remove(t, table, o.Route)
		if last != "" {
			if err := r.snapshots.Remove(last); err != nil {
				t.Fatal(err)
			}
		}
		o, last = next, s.Snapshot
		for _, dir := range []string{"executions", "snapshots", "sandboxes"} {
			if left, err := os.ReadDir(filepath.Join(r.dir, dir)); err != nil || len(left) != 1 {
				t.Fatalf("after cycle %d there are %v in %s, %v", cycle, left, dir, err)
			}
		}
		switch {
		case cycle == settled:
			most = used() + mayTake
		case cycle > settled && cycle%100 == 99:
			eventually(t, "what was removed is free", func() bool { return used() <= most })
			t.Logf("%d MiB of the volume are used after %d suspends", used()/mib, cycle+1)
		}
	}
	client(t, table, o.Route, ses, 5) // it's the same session
	remove(t, table, o.Route)
	if err := r.snapshots.Remove(last); err != nil {
		t.Fatal(err)
	}
	r.checkNothingLeft()
}

// write has a machine write something into its disk and its memory.
func (r *rig) write(t *testing.T, o Order, at int64) {
	t.Helper()
	text := make([]byte, mib/4)
	rand.Read(text)
	f, err := os.OpenFile(r.path(o, diskName), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(text, at)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
