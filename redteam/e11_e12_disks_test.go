//go:build e2e

package redteam

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestE11BlockDevice writes beyond the end of a disk, discards, and flushes without end: the file below stays as large as it was.
func TestE11BlockDevice(t *testing.T) {
	box := armed(t)
	disk := box.disk(t)
	before, err := os.Stat(disk)
	if err != nil {
		t.Fatal(err)
	}
	unharmed(t, func() {
		said := box.begin(t, "/tmp/attack block /dev/vda; sync")
		_, other := boxes(t)
		answers(t, other)
		eventually(t, 2*callDeadline, "it has ended", func() bool { return strings.Contains(said(), "[") })
		t.Logf("it says %s", clip(said()))
		if !strings.Contains(said(), "bytes: ") || strings.Contains(said(), "beyond the end") {
			t.Errorf("the device says %s", said())
		}
	})
	after, err := os.Stat(disk)
	if err != nil || after.Size() != before.Size() {
		t.Errorf("the disk had %d bytes and has %d: %v", before.Size(), after.Size(), err)
	}
}

// disk is the file that a sandbox's disk is in.
func (s sandbox) disk(t *testing.T) string {
	t.Helper()
	for _, path := range glob(t, filepath.Join(platform.instance.Volume(), "executions", "*", "record.json")) {
		var r struct{ Route struct{ Sandbox string } }
		if b, err := os.ReadFile(path); err != nil || json.Unmarshal(b, &r) != nil || r.Route.Sandbox != s.id {
			continue
		}
		return filepath.Join(filepath.Dir(path), "disk.img")
	}
	t.Fatalf("the node has no record of %s", s.id)
	return ""
}

// TestE12MaliciousFileSystem corrupts a guest's file system and has the platform stop, keep, start and delete it. The host never mounts it: nothing of
// it is in the table of mounts or of loop devices, and what it says of itself is a failed start.
func TestE12MaliciousFileSystem(t *testing.T) {
	boxes(t)
	before := holdings(t)
	box := newSandbox(t)
	unharmed(t, func() {
		box.root(t, `sync; for n in 1 3 9 17 33 65; do dd if=/dev/urandom of=/dev/vda bs=1k seek=$n count=8 conv=notrunc 2>/dev/null; done; sync`)
		if o := box.verb(t, "stop"); o.Status != "succeeded" {
			t.Fatalf("stop: %+v", o.Error)
		}
		if h := holdings(t); h.mounts != before.mounts || h.loops != before.loops {
			t.Errorf("the host has mounted something: %+v, was %+v", h, before)
		}
		o := box.verb(t, "start")
		t.Logf("start: %s %+v", o.Status, o.Error)
		if o.Status == "failed" && (o.Error == nil || o.Error.Code == "internal") {
			t.Errorf("the start ends with %+v", o.Error)
		}
		if h := holdings(t); h.mounts != before.mounts || h.loops != before.loops {
			t.Errorf("the host has mounted something: %+v, was %+v", h, before)
		}
	})
	ask(t, "DELETE", platform.api+"/v1/sandboxes/"+box.id+"?wait=60s", platform.owner, "").want(t, 200)
	wantHeld(t, before, 0)
}
