//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/instance"
)

// TestPowerLoss cuts the power each time the API has acknowledged something, and starts a platform on what the disk had at that moment.
//
// All that a platform stores, PostgreSQL, the node's records and the volume's image, lies on one disk: an ext4 file system in a file, which lies on
// an outer btrfs. When an answer arrives the file is cloned (FICLONE) while everything runs on: one moment of the whole disk, without what was
// still in memory: dirty pages of ext4, of the volume's btrfs in it, and of each guest. The volume's image is allocated and not yet written, so what a
// machine wrote is only found where its flush came down to the outer disk's journal. Nothing is told here of a disk that
// loses what it has been given and told to flush: only PostgreSQL's and the kernel's own tests look for that.
//
// Every cut proves its own truth: what was synced before it is there, what was written last and not synced is not.
func TestPowerLoss(t *testing.T) {
	p := newPowered(t)
	for _, s := range p.story() {
		s.do(t)
		p.cut(t, s.acknowledged)
		p.holds = append(p.holds, s.holds)
	}
	for n := range p.cuts {
		t.Run(p.cuts[n].acknowledged, func(t *testing.T) {
			p.boot(t, p.cuts[n])
			holds := p.holds[n : n+1]
			if n == len(p.cuts)-1 {
				holds = p.holds // the last one has all of it
			}
			for _, hold := range holds {
				hold(t)
			}
			verbatim(t, p.client, p.create(t), "echo new", "new\n")
		})
	}
}

// chapter is something that a client asks for, and what must be true ever after it was answered.
type chapter struct {
	acknowledged string
	do, holds    func(*testing.T)
}

// story is what happens to a platform that has nothing yet.
func (p *powered) story() []chapter {
	content := make([]byte, 1<<20+1)
	rand.Read(content)
	var key client.KeyCreated
	var ran, written, stopped, restarted, deleted client.Sandbox
	var said client.SessionCreated
	var suspended, kept, forked alive
	var shot client.Snapshot
	var children []client.Sandbox
	return []chapter{
		{"template", func(t *testing.T) { p.must(t, "template", "build", "mini") }, func(t *testing.T) {
			if got, err := p.client.GetTemplate(t.Context(), "mini"); err != nil || got.State != "ready" {
				t.Errorf("the template is %s: %v", got.State, err)
			}
		}},
		{"key", func(t *testing.T) {
			var err error
			if key, err = p.client.CreateKey(t.Context(), client.KeyCreate{Name: "kept"}); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T) {
			c, err := client.New(p.url, key.Secret)
			if err == nil {
				_, err = c.Me(t.Context())
			}
			if err != nil {
				t.Errorf("the key opens nothing: %v", err)
			}
		}},
		{"sandbox", func(t *testing.T) { ran = p.create(t) }, func(t *testing.T) {
			p.restart(t, ran)
			verbatim(t, p.client, ran, "hostname", "sbx-"+strings.TrimPrefix(ran.Id, "sbx_")+"\n")
		}},
		{"file", func(t *testing.T) {
			written = p.create(t)
			plane, err := p.client.Plane(t.Context(), written.Id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := plane.WriteFile(t.Context(), "/root/file", bytes.NewReader(content), client.AsUser("root")); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T) {
			p.restart(t, written)
			plane, err := p.client.Plane(t.Context(), written.Id)
			if err != nil {
				t.Fatal(err)
			}
			defer plane.Close(t.Context())
			file, err := plane.ReadFile(t.Context(), "/root/file", 0, client.AsUser("root"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if got, err := io.ReadAll(file); err != nil || !bytes.Equal(got, content) {
				t.Errorf("the file has %d bytes that aren't the %d that were written: %v", len(got), len(content), err)
			}
		}},
		{"stop", func(t *testing.T) {
			stopped = p.create(t)
			said = verbatim(t, p.client, stopped, "echo unsynced > /root/file; echo said", "said\n")
			if _, err := p.client.StopSandbox(t.Context(), stopped.Id); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T) {
			if now, err := p.client.GetSandbox(t.Context(), stopped.Id); err != nil || now.State != "stopped" {
				t.Fatalf("the sandbox is %s, want stopped: %v", now.State, err)
			}
			if r := followOn(t, p.client, said, func(client.Event) {}); string(r.stdout) != "said\n" || r.exit.Code != 0 || r.lost != nil {
				t.Errorf("its session says %q and ends with %+v, %+v", r.stdout, r.exit, r.lost)
			}
			if _, err := p.client.StartSandbox(t.Context(), stopped.Id); err != nil {
				t.Fatal(err)
			}
			verbatim(t, p.client, stopped, "cat /root/file", "unsynced\n")
		}},
		{"start", func(t *testing.T) {
			restarted = p.create(t)
			verbatim(t, p.client, restarted, "echo before > /root/file", "")
			for _, do := range []func() (client.Sandbox, error){
				func() (client.Sandbox, error) { return p.client.StopSandbox(t.Context(), restarted.Id) },
				func() (client.Sandbox, error) { return p.client.StartSandbox(t.Context(), restarted.Id) },
			} {
				if _, err := do(); err != nil {
					t.Fatal(err)
				}
			}
		}, func(t *testing.T) {
			p.restart(t, restarted)
			verbatim(t, p.client, restarted, "cat /root/file", "before\n")
		}},
		{"suspend", func(t *testing.T) {
			suspended = p.live(t, "suspended")
			if now, err := p.client.SuspendSandbox(t.Context(), suspended.box.Id); err != nil || now.State != "suspended" {
				t.Fatalf("%+v, %v", now, err)
			}
		}, func(t *testing.T) {
			if now, err := p.client.GetSandbox(t.Context(), suspended.box.Id); err != nil || now.State != "suspended" {
				t.Fatalf("the sandbox is %s, want suspended: %v", now.State, err)
			}
			if _, err := p.client.RestoreSandbox(t.Context(), suspended.box.Id, false); err != nil {
				t.Fatal(err)
			}
			p.lives(t, suspended.box, suspended)
		}},
		{"snapshot", func(t *testing.T) {
			kept = p.live(t, "kept")
			var err error
			if shot, err = p.client.CreateSnapshot(t.Context(), kept.box.Id, client.SnapshotCreate{}); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T) {
			p.lost(t, kept.box)
			if _, err := p.client.RollbackSandbox(t.Context(), kept.box.Id, shot.Id, false); err != nil {
				t.Fatal(err)
			}
			p.lives(t, kept.box, kept)
		}},
		{"fork", func(t *testing.T) {
			forked = p.live(t, "forked")
			var err error
			if children, err = p.client.ForkSandbox(t.Context(), forked.box.Id, client.SandboxFork{Count: ptr(2)}); err != nil {
				t.Fatal(err)
			}
			for _, c := range children {
				p.lives(t, c, forked)
			}
		}, func(t *testing.T) {
			for _, c := range children { // as every sandbox that runs: it's lost, and has its disk
				p.restart(t, c)
				verbatim(t, p.client, c, "cat /root/file", "forked")
			}
		}},
		{"delete", func(t *testing.T) {
			deleted = p.create(t)
			if err := p.client.DeleteSandbox(t.Context(), deleted.Id); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T) {
			if now, err := p.client.GetSandbox(t.Context(), deleted.Id); err == nil && now.State != "deleted" {
				t.Errorf("the deleted sandbox is %s", now.State)
			}
			left, err := filepath.Glob(filepath.Join(p.instance.Volume(), "executions", strings.TrimPrefix(deleted.Execution.Id, "exe_")+"*"))
			if err != nil || len(left) > 0 {
				t.Errorf("the deleted sandbox has left %v: %v", left, err)
			}
		}},
	}
}

// powered is a platform of its own whose disk can be cut off its power.
type powered struct {
	instance instance.Instance
	outer    string // where the outer file system is mounted
	url      string
	client   *client.Client
	cuts     []cut
	holds    []func(*testing.T)
}

// cut is a disk as it was when something had been acknowledged.
type cut struct {
	acknowledged, disk string
}

const (
	outerBytes = 24 << 30 // sparse, as all of it
	diskBytes  = 8 << 30
	volumeGiB  = 3
)

// synced and unsynced are files that tell whether a cut is one: the first was synced at the beginning, the second is written as the power goes.
const (
	synced   = "power-loss-synced"
	unsynced = "power-loss-unsynced-" // and what was acknowledged: nothing of an earlier one's may be taken for it
)

// newPowered starts a platform on a disk of its own, that goes with the test.
func newPowered(t *testing.T) *powered {
	t.Helper()
	name := platform.instance.Name[:min(len(platform.instance.Name), 10)] + "cut"
	p := &powered{instance: instance.Instance{Name: name}, outer: filepath.Join(t.TempDir(), "outer")}
	outer := p.outer + ".img"
	sparse(t, outer, outerBytes)
	t.Cleanup(func() { os.Remove(outer) })
	command(t, "mkfs.btrfs", "--quiet", outer)
	mount(t, outer, p.outer, "btrfs", "loop")
	sparse(t, p.disk(), diskBytes)
	command(t, "mkfs.ext4", "-q", "-E", "nodiscard", p.disk())
	t.Cleanup(func() {
		if t.Failed() {
			p.showLogs(t)
		}
		p.off(t)
		if err := show("purge", "--yes", "--instance", name); err != nil {
			t.Error(err)
		}
		for _, err := range leftovers(p.instance) {
			t.Error(err)
		}
	})
	p.insert(t, p.disk())
	config := fmt.Sprintf("volume_gib = %d\npool_size = %q\n", volumeGiB, cmp.Or(os.Getenv("SPACE_E2E_POOL"), "1"))
	if err := os.WriteFile(p.instance.ConfigFile(), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	p.up(t)
	for _, dir := range p.dirs() {
		if err := durable.WriteFile(filepath.Join(dir, synced), []byte(synced), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// dirs are on the two file systems that the platform has: the disk, and the volume in it.
func (p *powered) dirs() []string { return []string{p.instance.DataDir(), p.instance.Volume()} }

// disk is the one on which the platform lives before the first cut.
func (p *powered) disk() string { return filepath.Join(p.outer, "disk.img") }

// insert mounts a disk where the platform has its data. ext4 writes nothing out by itself while the test runs: who wants it written says so.
func (p *powered) insert(t *testing.T, disk string) {
	t.Helper()
	if err := os.MkdirAll(p.instance.DataDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, "mount", "-o", "loop,commit=600", disk, p.instance.DataDir())
}

func (p *powered) up(t *testing.T) {
	t.Helper()
	p.must(t, "up", "--no-install")
	var err error
	if p.instance, err = instance.Find(p.instance.Name); err != nil {
		t.Fatal(err)
	}
	c, err := cli.Load(cli.Overrides{Instance: p.instance.Name})
	if err != nil {
		t.Fatal(err)
	}
	p.url = c.URL
	if p.client, err = client.New(c.URL, c.APIKey); err != nil {
		t.Fatal(err)
	}
}

// off ends every process of the platform, takes away what a kernel has, and takes the disk out.
func (p *powered) off(t *testing.T) {
	t.Helper()
	powerOff(t, p.instance)
	nothingRemains(t, p.instance)
	err := unix.Unmount(p.instance.DataDir(), 0)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		t.Fatal(err)
	}
}

// boot starts the platform on a cut, and looks at the witnesses first.
func (p *powered) boot(t *testing.T, c cut) {
	t.Helper()
	p.off(t)
	p.insert(t, c.disk)
	p.up(t)
	for _, dir := range p.dirs() {
		if b, err := os.ReadFile(filepath.Join(dir, synced)); err != nil || string(b) != synced {
			t.Errorf("%s has lost what was synced: %q, %v", dir, b, err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, unsynced+c.acknowledged)); string(b) == c.acknowledged || err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s has what nobody synced, so the power wasn't cut: %q, %v", dir, b, err)
		}
	}
}

// cut clones the disk at once. The platform runs on.
func (p *powered) cut(t *testing.T, acknowledged string) {
	t.Helper()
	for _, dir := range p.dirs() {
		if err := os.WriteFile(filepath.Join(dir, unsynced+acknowledged), []byte(acknowledged), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := cut{acknowledged, filepath.Join(p.outer, acknowledged+".img")}
	from, err := os.Open(p.disk())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(c.disk)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd())); err != nil {
		t.Fatal(err)
	}
	p.cuts = append(p.cuts, c)
}

// must runs a command of the platform's.
func (p *powered) must(t *testing.T, args ...string) {
	t.Helper()
	if err := show(append(args, "--instance", p.instance.Name)...); err != nil {
		t.Fatal(err)
	}
}

func (p *powered) create(t *testing.T) client.Sandbox {
	t.Helper()
	s, err := p.client.CreateSandbox(t.Context(), client.SandboxCreate{Template: "mini"})
	if err != nil {
		t.Fatalf("create a sandbox: %v", err)
	}
	return s
}

// restart starts a sandbox that the power loss has ended: it's lost, says so, and has its disk.
func (p *powered) restart(t *testing.T, s client.Sandbox) {
	t.Helper()
	p.lost(t, s)
	if _, err := p.client.StartSandbox(t.Context(), s.Id); err != nil {
		t.Fatalf("start: %v", err)
	}
}

// alive is a sandbox with a text in a file that wasn't synced, in memory, and in a process.
type alive struct {
	box  client.Sandbox
	text string
	pid  string
}

// live makes one.
func (p *powered) live(t *testing.T, text string) alive {
	t.Helper()
	a := alive{box: p.create(t), text: text}
	script := fmt.Sprintf("printf %s >/root/file; printf %s >/dev/shm/file; TEXT=%s sleep 100000 >/dev/null 2>&1 & echo $!", text, text, text)
	created, err := p.client.CreateSession(t.Context(), a.box.Id, client.SessionCreate{Shell: &script, User: ptr("root")})
	if err != nil {
		t.Fatal(err)
	}
	a.pid = strings.TrimSpace(string(followOn(t, p.client, created, func(client.Event) {}).stdout))
	return a
}

// lives checks that a sandbox has all of it.
func (p *powered) lives(t *testing.T, s client.Sandbox, a alive) {
	t.Helper()
	verbatim(t, p.client, s, "cat /root/file /dev/shm/file; tr '\\0' '\\n' </proc/"+a.pid+"/environ | grep ^TEXT=", a.text+a.text+"TEXT="+a.text+"\n")
}

// lost waits until a sandbox is, which the power loss has ended.
func (p *powered) lost(t *testing.T, s client.Sandbox) {
	t.Helper()
	eventually(t, callDeadline, "the sandbox is lost", func() bool {
		now, err := p.client.GetSandbox(t.Context(), s.Id)
		if err != nil {
			t.Fatalf("the sandbox isn't there: %v", err)
		}
		return now.State == "lost"
	})
}

// showLogs shows what the platform has written last.
func (p *powered) showLogs(t *testing.T) {
	logs, _ := filepath.Glob(filepath.Join(p.instance.LogDir(), "*.log"))
	slices.Sort(logs)
	for _, log := range logs {
		b, _ := os.ReadFile(log)
		t.Logf("%s:\n%s", log, b[max(0, len(b)-4000):])
	}
}

// verbatim runs a shell command as root, which must succeed and say what is given.
func verbatim(t *testing.T, c *client.Client, s client.Sandbox, script, want string) client.SessionCreated {
	t.Helper()
	created, err := c.CreateSession(t.Context(), s.Id, client.SessionCreate{Shell: &script, User: ptr("root")})
	if err != nil {
		t.Fatalf("create a session: %v", err)
	}
	followOn(t, c, created, func(client.Event) {}).want(t, 0, want, "")
	return created
}

func sparse(t *testing.T, path string, bytes int64) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, bytes); err != nil {
		t.Fatal(err)
	}
}

// mount mounts a file system until the test ends.
func mount(t *testing.T, what, where, kind, options string) {
	t.Helper()
	if err := os.MkdirAll(where, 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, "mount", "-t", kind, "-o", options, what, where)
	t.Cleanup(func() {
		eventually(t, callDeadline, where+" is unmounted", func() bool { return unix.Unmount(where, 0) == nil }) // what lies on it lets go later
	})
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}
