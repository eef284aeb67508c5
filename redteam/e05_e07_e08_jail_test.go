//go:build e2e

package redteam

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/space-platform/space/internal/instance"
)

// vmms are the processes of machines, by their pids.
func vmms(t *testing.T) (pids []int) {
	t.Helper()
	first, last := platform.instance.VMUIDs()
	for _, dir := range glob(t, "/proc/[0-9]*") {
		if uid, err := strconv.Atoi(procField(dir, "Uid")); err == nil && uid >= first && uid <= last {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		t.Fatal("no machine has a process: the test looks in the wrong place")
	}
	return pids
}

// procField is the first word of a line of DIR/status.
func procField(dir, field string) string {
	b, _ := os.ReadFile(filepath.Join(dir, "status"))
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			if f := strings.Fields(v); len(f) > 0 {
				return f[0]
			}
		}
	}
	return ""
}

// TestE05Seccomp reads the filter mode of every thread of every VMM: all of them are filtered, and can't gain rights.
func TestE05Seccomp(t *testing.T) {
	boxes(t)
	if mode := procField("/proc/self", "Seccomp"); mode != "0" && mode != "2" {
		t.Fatalf("the test's own filter mode is %q: the kernel tells none", mode)
	}
	threads := 0
	for _, pid := range vmms(t) {
		for _, thread := range glob(t, fmt.Sprintf("/proc/%d/task/[0-9]*", pid)) {
			mode, gain, caps := procField(thread, "Seccomp"), procField(thread, "NoNewPrivs"), procField(thread, "CapEff")
			if mode == "" {
				continue // it has ended
			}
			threads++
			if mode != "2" || gain != "1" || strings.Trim(caps, "0") != "" {
				t.Errorf("%s: seccomp mode %s, no_new_privs %s, capabilities %s", thread, mode, gain, caps)
			}
		}
	}
	t.Logf("%d threads", threads)
	if threads < 2 {
		t.Errorf("%d threads were looked at", threads)
	}
}

// TestE07PlantedLinks tries, as a machine's own user and as nobody, to put links where the next machine's enclosure will be, and into what a machine
// has. That links in what is handed to a machine are refused is TestPlantedLinksAreNotFollowed of internal/host/jail.
func TestE07PlantedLinks(t *testing.T) {
	boxes(t)
	first, _ := platform.instance.VMUIDs()
	dirs := []string{platform.instance.EnclosuresDir(), platform.instance.RoleRunDir(instance.Host), platform.instance.RunDir(), platform.instance.Volume(), filepath.Join(platform.instance.Volume(), "executions")}
	dirs = append(dirs, glob(t, filepath.Join(platform.instance.EnclosuresDir(), "*"))...)
	if len(dirs) < 6 {
		t.Fatal("no machine has an enclosure: the test looks in the wrong place")
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("the test looks in the wrong place: %v", err)
		}
		for _, uid := range []int{first, 65534} {
			planted := filepath.Join(dir, "planted")
			err := asUser(uid, func() error { return os.Symlink("/etc/shadow", planted) })
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("user %d plants a link in %s: %v", uid, dir, err)
				os.Remove(planted)
			}
		}
	}
}

// TestE08Sockets knocks at every socket of every machine as the user of another machine, as the roles' users and as nobody: only the host gets through.
// A guest has no way to them at all.
func TestE08Sockets(t *testing.T) {
	boxes(t)
	_, last := platform.instance.VMUIDs()
	users := []int{last, 65534, platform.instance.UID(instance.API), platform.instance.UID(instance.Edge), platform.instance.UID(instance.NodeAPI), platform.instance.UID(instance.Manager)}
	sockets := 0
	filepath.WalkDir(platform.instance.EnclosuresDir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() != fs.ModeSocket {
			return nil
		}
		sockets++
		for _, uid := range users {
			err := asUser(uid, func() error {
				c, err := net.Dial("unix", path)
				if err == nil {
					c.Close()
				}
				return err
			})
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("user %d connects to %s: %v", uid, path, err)
			}
		}
		return nil
	})
	t.Logf("%d sockets", sockets)
	if sockets == 0 {
		t.Error("no machine has a socket: the test looks in the wrong place")
	}
	box, _ := boxes(t)
	if found := box.root(t, `find / -xdev -type s 2>/dev/null; true`); found != "" {
		t.Errorf("the guest sees %q", found)
	}
}
