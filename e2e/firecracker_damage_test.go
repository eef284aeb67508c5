//go:build e2e && firecracker

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/disk/btrfs"
	"github.com/space-platform/space/internal/instance"
)

// damage is what is done to the files of a suspended sandbox's snapshot, beside another's.
var damages = []struct {
	name  string
	do    func(dir, other string) error
	boots bool // what is left can be booted
	lost  bool // it isn't the snapshot that was made any more
}{
	{name: "a memory that is cut off", do: func(dir, _ string) error { return os.Truncate(filepath.Join(dir, "mem.img"), 1<<20) }, boots: true},
	{name: "no device state", do: func(dir, _ string) error { return os.Remove(filepath.Join(dir, "state.bin")) }, boots: true},
	{name: "another's device state", do: exchangeFile("state.bin"), boots: true},
	{name: "another's memory", do: exchangeFile("mem.img"), boots: true},
	{name: "another's disk", do: exchangeFile("disk.img")},
	{name: "another's manifest", do: exchangeFile("manifest.json"), lost: true},
}

// exchangeFile has a file replaced by another snapshot's of the same name.
func exchangeFile(name string) func(dir, other string) error {
	return func(dir, other string) error {
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil {
			return err
		}
		return disk.Clone(filepath.Join(other, name), path, 0)
	}
}

// testDamagedSnapshots damages the snapshots of suspended sandboxes, and a template's: under spaced-host, and then once more while a killed one isn't back yet. A
// restore says so, and starts nothing; what is left of a sandbox can be booted. A template is made anew.
func testDamagedSnapshots(t *testing.T) {
	volume := platform.instance.Volume()
	other := suspended(t)
	for _, life := range []string{"same life", "next life"} {
		var boxes []sleeper
		for _, d := range damages {
			x := suspended(t)
			if err := writable(x.dir, func() error { return d.do(x.dir, other.dir) }); err != nil {
				t.Fatal(err)
			}
			boxes = append(boxes, x)
		}
		if life == "next life" {
			kill(t, instance.Host)
		}
		for i, d := range damages {
			t.Run(d.name+", "+life, func(t *testing.T) {
				id := boxes[i].box.Id
				if d.lost {
					if life == "same life" {
						if now, err := platform.client.RestoreSandbox(t.Context(), id, false); err == nil { // if the node hasn't seen it by itself, it sees it now
							t.Errorf("it's restored: %+v", now)
						}
					}
					awaitLost(t, boxes[i].box)
					return
				}
				_, err := platform.client.RestoreSandbox(t.Context(), id, false)
				wantCode(t, err, "snapshot_unusable")
				now, err := platform.client.RestoreSandbox(t.Context(), id, true)
				if !d.boots {
					wantCode(t, err, "snapshot_unusable")
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				runIn(t, now, shell("cat /root/note; test -e /proc/"+boxes[i].pid+" || echo gone")).want(t, 0, "oldgone\n", "")
			})
		}
		for _, x := range boxes {
			if err := platform.client.DeleteSandbox(t.Context(), x.box.Id); err != nil {
				t.Error(err)
			}
		}
		t.Run("a template, "+life, func(t *testing.T) { testDamagedTemplates(t, life == "next life") })
	}
	recalls(t, verb(t, other.box.Id, "restore"), "old", other.pid)
	aside := existing(filepath.Join(volume, "snapshots", "*.unreadable"))
	if len(aside) != 2 {
		t.Errorf("%q are kept for the operator, want one of each life", aside)
	}
	for _, dir := range aside {
		if err := btrfs.Delete(dir); err != nil {
			t.Error(err)
		}
	}
}

// testDamagedTemplates cuts the memory of all templates off: who wants a sandbox hears of it, and then they have been made anew.
func testDamagedTemplates(t *testing.T, nextLife bool) {
	memories := existing(filepath.Join(platform.instance.Volume(), "templates", "*", "mem.img"))
	if len(memories) == 0 {
		t.Fatal("no template has a memory")
	}
	for _, path := range memories {
		if err := writable(filepath.Dir(path), func() error { return os.Truncate(path, 1<<20) }); err != nil {
			t.Fatal(err)
		}
	}
	if nextLife {
		kill(t, instance.Host)
	}
	defer func() {
		if now, err := platform.client.GetTemplate(t.Context(), "mini"); t.Failed() {
			t.Logf("the template is %+v, %+v, %v", now, now.Error, err)
		}
	}()
	refused := 0
	eventually(t, 2*bootDeadline, "a sandbox is made again", func() bool {
		s, err := platform.client.CreateSandbox(t.Context(), client.SandboxCreate{Template: "mini"})
		if err != nil {
			wantCode(t, err, "template_not_ready")
			refused++
			return t.Failed()
		}
		runIn(t, s, client.SessionCreate{Argv: argv("echo", "well")}).want(t, 0, "well\n", "")
		return platform.client.DeleteSandbox(t.Context(), s.Id) == nil
	})
	if refused == 0 && !nextLife { // the next life makes it anew before anybody asks
		t.Error("a damaged template has made a sandbox")
	}
	for s, err := range platform.client.ListSandboxes(t.Context(), client.SandboxFilter{}) {
		if err == nil && s.State == "failed" {
			err = platform.client.DeleteSandbox(t.Context(), s.Id)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// testFullDisk suspends a sandbox, takes a snapshot of it and restores it when the volume has no room: each succeeds, or is refused clearly and has changed nothing.
// With room all goes on, and nothing is left of what failed.
func testFullDisk(t *testing.T) {
	s := create(t, "mini")
	pid := remember(t, s, "old")
	give := fill(t, platform.instance.Volume())
	clear := func(what string, err error) {
		t.Helper()
		var e *client.Error
		if err != nil && (!errors.As(err, &e) || !clearly[e.Code]) {
			t.Errorf("%s on a full disk: %v", what, err)
		}
		t.Logf("%s on a full disk: %v", what, err)
	}
	_, err := platform.client.CreateSnapshot(t.Context(), s.Id, client.SnapshotCreate{})
	clear("a snapshot", err)
	_, err = platform.client.SuspendSandbox(t.Context(), s.Id)
	clear("a suspend", err)
	_, err = platform.client.WakeSandbox(t.Context(), s.Id)
	clear("a wake", err)
	give()
	eventually(t, bootDeadline, "a sandbox is made again", func() bool {
		again, err := platform.client.CreateSandbox(t.Context(), client.SandboxCreate{Template: "mini"})
		return err == nil && platform.client.DeleteSandbox(t.Context(), again.Id) == nil
	})
	now, err := platform.client.WakeSandbox(t.Context(), s.Id)
	if err != nil {
		t.Fatal(err)
	}
	recalls(t, now, "old", pid)
	verb(t, s.Id, "suspend")
	recalls(t, verb(t, s.Id, "restore"), "old", pid)
	if left := existing(filepath.Join(platform.instance.Volume(), "snapshots", "*.new")); len(left) > 0 {
		t.Errorf("what was begun is left: %q", left)
	}
}
