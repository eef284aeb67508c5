package machine

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/api/link"
)

// covered makes files that stand for those of a machine.
func covered(t *testing.T) (c Covers, read func(*os.File) string) {
	t.Helper()
	file := func(name, content string) *os.File {
		f, err := os.OpenFile(filepath.Join(t.TempDir(), name), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if _, err := f.WriteString(content); err != nil {
			t.Fatal(err)
		}
		return f
	}
	c = Covers{
		BootID:    file("boot-id", "00000000-0000-4000-8000-000000000000\n"),
		MachineID: []*os.File{file("machine-id", ""), file("dbus", strings.Repeat("x", 50))}, // as images have it
		Hosts:     file("hosts", "127.0.0.1 localhost\n127.0.1.1 sandbox\n10.0.0.1 db"),
	}
	return c, func(f *os.File) string {
		t.Helper()
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

// inOwnNames runs a test whose thread has a host name of its own, which nobody else sees.
func inOwnNames(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() { // its thread ends with it
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWUTS)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestNamesAreTheExecutions(t *testing.T) {
	c, read := covered(t)
	m := &Machine{covers: c}
	type names struct{ boot, machine, dbus, hosts string }
	var seen []names
	inOwnNames(t, func() {
		for _, s := range []link.Sync{
			{Execution: "exe_a", Epoch: 1, Adopt: true, Hostname: "sbx-a"},
			{Execution: "exe_a", Epoch: 1, Adopt: true, Hostname: "sbx-a"}, // asked once more
			{Execution: "exe_a", Epoch: 1, Hostname: "sbx-a"},              // another life of the daemon
			{Execution: "exe_b", Epoch: 2, Adopt: true, Hostname: "sbx-a"}, // a restore
			{Execution: "exe_c", Epoch: 1, Adopt: true, Hostname: "sbx-c"}, // a fork
		} {
			if err := m.identify(s); err != nil {
				t.Error(err)
			}
			seen = append(seen, names{read(c.BootID), read(c.MachineID[0]), read(c.MachineID[1]), read(c.Hosts)})
		}
		var u unix.Utsname
		if err := unix.Uname(&u); err != nil || unix.ByteSliceToString(u.Nodename[:]) != "sbx-c" {
			t.Errorf("the host name is %q, %v", u.Nodename, err)
		}
	})
	uuid := regexp.MustCompile("^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\n$")
	id := regexp.MustCompile("^[0-9a-f]{32}\n$")
	for i, s := range seen {
		if !uuid.MatchString(s.boot) || !id.MatchString(s.machine) || s.dbus != s.machine {
			t.Errorf("handshake %d: %+v", i, s)
		}
	}
	if seen[0] != seen[1] || seen[0] != seen[2] {
		t.Errorf("the names of one execution change: %+v", seen[:3])
	}
	restored, forked := seen[3], seen[4]
	if restored.boot == seen[0].boot || restored.machine != seen[0].machine || restored.hosts != seen[0].hosts {
		t.Errorf("after a restore they are %+v, before %+v", restored, seen[0])
	}
	if forked.boot == restored.boot || forked.machine == restored.machine {
		t.Errorf("after a fork they are %+v, of the source %+v", forked, restored)
	}
	if want := "127.0.0.1 localhost\n10.0.0.1 db\n127.0.1.1\tsbx-c\n"; forked.hosts != want {
		t.Errorf("the hosts file is %q, want %q", forked.hosts, want)
	}
}

func TestHostsFileKeepsWhatItHas(t *testing.T) {
	for name, c := range map[string]struct{ old, want string }{
		"nothing":     {"", "127.0.1.1\tnew\n"},
		"the old one": {"127.0.1.1\told\n", "127.0.1.1\tnew\n"},
		"more":        {"# 127.0.1.1 x\n 127.0.1.1  a b\n::1 localhost\n127.0.1.11 y\n", "# 127.0.1.1 x\n::1 localhost\n127.0.1.11 y\n127.0.1.1\tnew\n"},
		"no end":      {"::1 localhost", "::1 localhost\n127.0.1.1\tnew\n"},
	} {
		if got := string(hosts([]byte(c.old), "new")); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestALongHostsFileIsLeftAlone(t *testing.T) {
	c, read := covered(t)
	long := strings.Repeat("10.0.0.1 x\n", maxHosts/11+1)
	if _, err := c.Hosts.WriteAt([]byte(long), 0); err != nil {
		t.Fatal(err)
	}
	if err := c.rename("new"); err != nil || read(c.Hosts) != long {
		t.Errorf("it was changed (%v)", err)
	}
}

// An image without any of the files, and a kernel that can't cover its own.
func TestWhatIsNotCoveredIsNotNamed(t *testing.T) {
	m := new(Machine)
	inOwnNames(t, func() {
		if err := m.identify(link.Sync{Execution: "exe_a", Epoch: 1, Adopt: true, Hostname: "sbx-a"}); err != nil {
			t.Error(err)
		}
	})
}
