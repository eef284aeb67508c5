//go:build e2e

package redteam

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/instance"
)

// holding is what machines hold of the host. Machines of the pool come and go meanwhile, so what counts is whether each thing has an owner.
type holding struct {
	orphans []string // namespaces, cgroups and enclosures without a directory of an execution
	records int      // executions that the node has on file
	mounts  int      // of the platform
	loops   int      // of the platform
}

// label is a machine's part of a name: 128 bits in base32.
var label = regexp.MustCompile(`[a-z2-7]{26}`)

func holdings(t *testing.T) (h holding) {
	t.Helper()
	i := platform.instance
	executions := filepath.Join(i.Volume(), "executions")
	for _, pattern := range []string{
		filepath.Join(instance.NetNSDir, i.Prefix()+"*"), filepath.Join(i.EnclosuresDir(), "*"),
		"/sys/fs/cgroup/*/" + i.Cgroup() + "/*", "/sys/fs/cgroup/" + i.Cgroup() + "/*",
	} {
		for _, path := range glob(t, pattern) {
			of := label.FindString(filepath.Base(path))
			if _, err := os.Stat(filepath.Join(executions, of)); of != "" && err != nil {
				h.orphans = append(h.orphans, path)
			}
		}
	}
	h.records = len(glob(t, filepath.Join(executions, "*", "record.json")))
	for _, f := range glob(t, "/sys/block/loop*/loop/backing_file") {
		if b, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(b), i.DataDir()+"/") {
			h.loops++
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); strings.HasPrefix(f[1], i.DataDir()+"/") {
			h.mounts++
		}
	}
	return h
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// wantHeld holds that machines come to hold what they held before, and so many executions more.
func wantHeld(t *testing.T, before holding, more int) {
	t.Helper()
	before.records += more
	var now holding
	defer func() { t.Logf("held is %+v, was %+v", now, before) }()
	eventually(t, callDeadline, "what machines held is free", func() bool {
		now = holdings(t)
		if len(now.orphans) > 0 || now.records != before.records || now.mounts != before.mounts || now.loops != before.loops {
			return false
		}
		return true
	})
}

// verb does one to a sandbox and returns the operation as it ended.
func (s sandbox) verb(t *testing.T, verb string) gen.Operation {
	t.Helper()
	a := ask(t, "POST", platform.api+"/v1/sandboxes/"+s.id+"/"+verb+"?wait=120s", platform.owner, "").want(t, 200, 202)
	return decode[gen.Operation](t, a)
}

// TestR21Thrash stops and starts a sandbox over and over, by several at once: one operation runs at a time, and nothing is left of the machines.
func TestR21Thrash(t *testing.T) {
	boxes(t)
	box := newSandbox(t)
	before := holdings(t)
	unharmed(t, func() {
		for range 3 {
			for _, verb := range []string{"stop", "start"} {
				if o := box.verb(t, verb); o.Status != "succeeded" {
					t.Fatalf("%s: %+v", verb, o)
				}
				a := ask(t, "POST", platform.api+"/v1/sandboxes/"+box.id+"/"+verb, platform.owner, "").want(t, 200, 202)
				if again := decode[gen.Operation](t, a); again.Status != "succeeded" {
					t.Errorf("%s again: %+v", verb, again)
				}
			}
		}
	})
	wantHeld(t, before, 0)
	ask(t, "DELETE", platform.api+"/v1/sandboxes/"+box.id+"?wait=60s", platform.owner, "").want(t, 200)
	wantHeld(t, before, -1)
}

// TestR22CrashLoop has a guest whose kernel dies, and dies again at every boot: each is a loss that is said, nothing starts it again by itself, a start
// that fails costs no more than its time, and nothing is left.
func TestR22CrashLoop(t *testing.T) {
	boxes(t)
	before := holdings(t)
	box := newSandbox(t)
	unharmed(t, func() {
		said := box.begin(t, `echo 1 > /proc/sys/kernel/sysrq; dd if=/dev/zero of=/dev/vda bs=64k count=4 2>/dev/null; sync; echo c > /proc/sysrq-trigger; reboot -f`)
		defer func() { t.Logf("the guest says %s", clip(said())) }()
		eventually(t, callDeadline, "the sandbox is lost", func() bool { return box.state(t).State == "lost" })
		for range 2 {
			o := box.verb(t, "start")
			if o.Status != "failed" || o.Error == nil || o.Error.Code == "internal" {
				t.Errorf("a start of what can't boot: %+v, %+v", o, o.Error)
			} else {
				t.Logf("a start of what can't boot: %s: %s", o.Error.Code, *o.Error.Detail)
			}
			if now := box.state(t).State; now != "lost" {
				t.Errorf("the sandbox is %s, was lost", now)
			}
		}
	})
	ask(t, "DELETE", platform.api+"/v1/sandboxes/"+box.id+"?wait=60s", platform.owner, "").want(t, 200)
	wantHeld(t, before, 0)
}
