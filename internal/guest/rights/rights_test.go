package rights

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/guest/account"
)

var (
	root   = account.Account{Name: "root", Groups: []uint32{0}}
	nobody = account.Account{Name: "nobody", UID: 65534, GID: 65533, Groups: []uint32{65533, 4711}}
)

// open makes a directory that everybody may reach.
func open(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "rights")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAsSomebodyElse runs the tests of an agent that isn't root.
func TestAsSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		return // it's that run
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(open(t), "test")
	if err := os.WriteFile(copied, program, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), copied)
	cmd.Dir, cmd.Env = "/", os.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody.UID, Gid: nobody.GID}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestKernelDecides(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	dir := open(t)
	secret, shared := filepath.Join(dir, "secret"), filepath.Join(dir, "shared")
	for path, mode := range map[string]os.FileMode{secret: 0o600, shared: 0o640} {
		if err := os.WriteFile(path, []byte("x"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(shared, 0, 4711); err != nil {
		t.Fatal(err)
	}
	err := As(nobody, func() error {
		for path, want := range map[string]bool{
			secret: false, shared: true, "/proc/self/mem": false, "/proc/self/environ": false, "/proc/1/environ": false, "/proc/1/root/etc": false,
		} {
			f, err := os.Open(path)
			if (err == nil) != want {
				t.Errorf("open %s: %v", path, err)
			}
			f.Close()
		}
		if err := os.Chown(shared, 65534, 65533); !errors.Is(err, syscall.EPERM) {
			t.Errorf("take another's file: %v", err)
		}
		if err := unix.Mknod(filepath.Join(dir, "null"), syscall.S_IFCHR|0o666, 0x103); !errors.Is(err, syscall.EPERM) {
			t.Errorf("make a device: %v", err)
		}
		if err := unix.Mount("none", dir, "tmpfs", 0, ""); !errors.Is(err, syscall.EPERM) {
			t.Errorf("mount: %v", err)
		}
		return os.WriteFile(filepath.Join(dir, "mine"), nil, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "mine"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 65534 || st.Gid != 65533 {
		t.Errorf("a new file belongs to %d:%d", st.Uid, st.Gid)
	}
	if err := As(root, func() error { _, err := os.ReadFile(secret); return err }); err != nil {
		t.Errorf("root: %v", err)
	}
}

// TestNothingIsLeft: no thread of this program has another identity afterwards.
func TestNothingIsLeft(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	if os.Geteuid() != 0 {
		return
	}
	for range 50 {
		if err := As(nobody, func() error { _, err := os.ReadDir("/tmp"); return err }); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (text string) {
		tasks, err := filepath.Glob("/proc/self/task/*/status")
		if err != nil || len(tasks) == 0 {
			t.Fatal(tasks, err)
		}
		for _, task := range tasks {
			if status, err := os.ReadFile(task); err == nil && strings.Contains(string(status), "\t65534\n") {
				text += string(status)
			}
		}
		return text
	}
	for until := time.Now().Add(20 * time.Second); left() != ""; { // a thread ends a little after its call
		if time.Now().After(until) {
			t.Fatalf("there is a thread with the user's identity:\n%s", left())
		}
	}
}

func TestOthersThanRootAreOnlyThemselves(t *testing.T) {
	if os.Geteuid() == 0 {
		return // TestAsSomebodyElse runs it
	}
	own := account.Account{Name: "own", UID: uint32(os.Geteuid())}
	if err := As(own, func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := As(root, func() error { return nil }); space.CodeOf(err) != space.CodeForbidden {
		t.Error(err)
	}
}

func TestWhatAsReturns(t *testing.T) {
	own := account.Account{Name: "own", UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	want := errors.New("x")
	if err := As(own, func() error { return want }); err != want {
		t.Error(err)
	}
	if err := As(own, func() error { panic(fmt.Sprint("on purpose")) }); space.CodeOf(err) != space.CodeInternal {
		t.Error(err)
	}
	if os.Geteuid() == 0 && As(account.Account{Name: "nobody at all", UID: 1<<32 - 1}, func() error { return nil }) == nil {
		t.Error("became the number that is nobody")
	}
}
