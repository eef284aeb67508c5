package setup

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
)

// claim sets up an instance that is purged when the test ends.
func claim(t *testing.T, name string) instance.Instance {
	t.Helper()
	i, err := instance.Claim(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Purge(context.Background(), i); err != nil {
			t.Errorf("purge: %v", err)
		}
	})
	for range 2 { // setting up twice is the same as once
		if err := EnsureUsers(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		if err := EnsureDirectories(i); err != nil {
			t.Fatal(err)
		}
		if err := EnsureConfiguration(i); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

func TestUsersAndDirectoriesBelongToTheirRoles(t *testing.T) {
	i := claim(t, "tsetupfiles")
	for _, r := range instance.Users() {
		u, err := user.LookupId(strconv.Itoa(i.UID(r)))
		if err != nil || u.Username != i.User(r) {
			t.Errorf("user of %s: %+v, %v; want %s", r, u, err, i.User(r))
			continue
		}
		groups, err := u.GroupIds()
		if err != nil || !strings.Contains(strings.Join(groups, " "), strconv.Itoa(i.GID())) {
			t.Errorf("%s is in the groups %v, %v; want %d among them", u.Username, groups, err, i.GID())
		}
	}
	for _, r := range instance.Roles() {
		wantFile(t, i.RoleDir(r), i.UID(r), i.UID(r), fs.ModeDir|0o700)
		wantFile(t, i.RoleRunDir(r), i.UID(r), i.GID(), fs.ModeDir|fs.ModeSetgid|0o750)
	}
	wantFile(t, i.ConfigFile(), 0, 0, 0o644)
	if _, err := instance.LoadConfig(i); err != nil {
		t.Errorf("our own configuration: %v", err)
	}
	if from := BuildOf(i); from != "" {
		t.Errorf("without binaries they are from %q", from)
	}
	build := t.TempDir()
	for _, name := range Binaries() {
		if err := os.WriteFile(filepath.Join(build, name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := EnsureBinaries(i, build); err != nil || BuildOf(i) != build {
		t.Errorf("%v, they are from %q, want %q", err, BuildOf(i), build)
	}
}

func wantFile(t *testing.T, path string, uid, gid int, mode fs.FileMode) {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Error(err)
		return
	}
	s := st.Sys().(*syscall.Stat_t)
	if int(s.Uid) != uid || int(s.Gid) != gid || st.Mode() != mode {
		t.Errorf("%s is %d:%d %s, want %d:%d %s", path, s.Uid, s.Gid, st.Mode(), uid, gid, mode)
	}
}

func TestUserOfAnotherIDIsRefused(t *testing.T) {
	i := claim(t, "tsetupuser")
	i.Slot++ // the same names, other ids
	if err := EnsureUsers(t.Context(), i); err == nil || !strings.Contains(err.Error(), "exists with id") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestNothingOfAnInstanceIsLeft(t *testing.T) {
	i := claim(t, "tsetupgone")
	machine := leaveThings(t, i)
	before, err := Leftovers(i)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 machines", "/sys/fs/cgroup/", i.Prefix() + "one", i.Volume(), "/dev/loop", i.EnclosuresDir()} {
		if !strings.Contains(strings.Join(before, "\n"), want) {
			t.Errorf("%q isn't among the leftovers %q", want, before)
		}
	}
	if err := Purge(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	if after, err := Leftovers(i); err != nil || len(after) > 0 {
		t.Errorf("left: %q, %v", after, err)
	}
	if err := machine.Wait(); err == nil || machine.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the machine ended with %v, want a kill", machine.ProcessState)
	}
	for _, path := range []string{i.DataDir(), i.RunDir(), i.LogDir()} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	if _, err := user.Lookup(i.User(instance.API)); err == nil {
		t.Errorf("user %s is still there", i.User(instance.API))
	}
	if _, err := instance.Find(i.Name); err == nil {
		t.Error("its slot is still taken")
	}
}

// leaveThings makes one of each thing that a platform has in the kernel, and returns what plays a machine.
func leaveThings(t *testing.T, i instance.Instance) *exec.Cmd {
	t.Helper()
	group := filepath.Join("/sys/fs/cgroup/pids", i.Cgroup(), "one")
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		group = filepath.Join("/sys/fs/cgroup", i.Cgroup(), "one")
	}
	must(t, os.MkdirAll(group, 0o755))
	first, _ := i.VMUIDs()
	machine := exec.Command("sleep", "1000")
	machine.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(first), Gid: uint32(first)}}
	must(t, machine.Start())
	t.Cleanup(func() { machine.Process.Kill() })
	must(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(machine.Process.Pid)), 0))
	must(t, command(t.Context(), "ip", "netns", "add", i.Prefix()+"one"))
	must(t, os.WriteFile(i.VolumeImage(), make([]byte, 1<<20), 0o600))
	must(t, command(t.Context(), "losetup", "--find", i.VolumeImage()))
	must(t, os.MkdirAll(i.Volume(), 0o700))
	must(t, unix.Mount("tmpfs", i.Volume(), "tmpfs", 0, "size=1m"))
	must(t, os.MkdirAll(filepath.Join(i.EnclosuresDir(), "exe_one", "root"), 0o700))
	return machine
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
