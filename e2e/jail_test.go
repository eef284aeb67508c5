//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// home returns the name of the enclosure in which a sandbox's machine runs, without its prefix. A machine of the pool has one before it
// belongs to the sandbox, so the node's record has to be asked.
func home(t *testing.T, s client.Sandbox) string {
	t.Helper()
	records, err := filepath.Glob(filepath.Join(platform.instance.Volume(), "executions", "*", "record.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range records {
		var r struct {
			Route struct{ Execution string }
			Home  string
		}
		b, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(b, &r) != nil || r.Route.Execution != s.Execution.Id {
			continue
		}
		return strings.TrimPrefix(cmp.Or(r.Home, r.Route.Execution), "exe_")
	}
	t.Fatalf("the node has no record of %s", s.Execution.Id)
	return ""
}

// vmm returns the pid of the process that runs a sandbox's machine: the one in its cgroup with a uid of the VM range.
func vmm(t *testing.T, s client.Sandbox) int {
	t.Helper()
	return processesOf(t, s)[0]
}

// processesOf returns the pids of all processes of a sandbox's machine.
func processesOf(t *testing.T, s client.Sandbox) (all []int) {
	t.Helper()
	first, last := platform.instance.VMUIDs()
	label := home(t, s)
	for _, p := range processes(func(uid int, _ string) bool { return uid >= first && uid <= last }) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p))
		if err == nil && strings.Contains(string(b), label) {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no process of %s", s.Id)
	}
	return all
}

// TestJailFromOutside reads what the kernel says of a VMM.
func TestJailFromOutside(t *testing.T) {
	a, b := create(t, "mini"), create(t, "mini")
	pa, pb := vmm(t, a), vmm(t, b)
	for field, want := range map[string]string{
		"NoNewPrivs": "1", "Seccomp": "2", "Groups": "",
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
	} {
		if got := status(pa, field); got != want {
			t.Errorf("/proc/%d/status: %s is %q, want %q", pa, field, got, want)
		}
	}
	uids := strings.Fields(status(pa, "Uid"))
	if ub := strings.Fields(status(pb, "Uid")); uids[0] == ub[0] || uids[0] != uids[1] || uids[0] != uids[2] || uids[0] != uids[3] {
		t.Errorf("uids %v and %v: one uid per machine", uids, ub)
	}
	for _, ns := range []string{"mnt", "ipc", "uts", "net"} {
		x, y, ours := namespace(t, pa, ns), namespace(t, pb, ns), namespace(t, os.Getpid(), ns)
		if x == y || x == ours || y == ours {
			t.Errorf("namespace %s isn't its own: %s, %s, host %s", ns, x, y, ours)
		}
	}
	testRoot(t, pa)
	testCgroups(t, pa)
}

func namespace(t *testing.T, pid int, ns string) string {
	t.Helper()
	l, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// testRoot looks into the root directory that the VMM sees.
func testRoot(t *testing.T, pid int) {
	t.Helper()
	root := fmt.Sprintf("/proc/%d/root", pid)
	for _, hidden := range []string{"/etc/shadow", "/etc/passwd", "/root", "/sys/kernel", instance.Root, "/run/space", "/home"} {
		if _, err := os.Stat(root + hidden); err == nil {
			t.Errorf("the VMM sees %s", hidden)
		}
	}
	testDevices(t, root)
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if f[2] == "proc" && !(strings.Contains(f[3], "hidepid=invisible") && strings.Contains(f[3], "subset=pid")) {
			t.Errorf("the VMM's /proc shows more than itself: %s", line)
		}
	}
	for _, dir := range []string{"/", "/usr", "/dev"} {
		if f, err := os.Create(root + dir + "/written"); err == nil {
			f.Close()
			os.Remove(f.Name())
			t.Errorf("%s in the VMM's root is writable", dir)
		}
	}
}

// testDevices compares the VMM's devices with what its driver needs: hardware virtualisation only where that is used.
func testDevices(t *testing.T, root string) {
	t.Helper()
	node, err := platform.client.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"null", "urandom", "zero"}
	if node.Acceleration == "kvm" {
		want = append([]string{"kvm"}, want...)
	}
	entries, err := os.ReadDir(root + "/dev")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if node.Driver == "qemu" && !slices.Equal(got, want) {
		t.Errorf("the VMM has the devices %v, want %v", got, want)
	}
	if has := slices.Contains(got, "kvm"); has != (node.Acceleration == "kvm") { // Firecracker's jailer adds some of its own
		t.Errorf("with acceleration %s: the VMM sees /dev/kvm: %v", node.Acceleration, has)
	}
}

// testCgroups checks that memory, CPU and pids are limited, whichever version the host has.
func testCgroups(t *testing.T, pid int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	limits := map[string][2]string{"memory": {"memory.limit_in_bytes", "memory.max"}, "cpu": {"cpu.cfs_quota_us", "cpu.max"}, "pids": {"pids.max", "pids.max"}}
	for controller, files := range limits {
		path := ""
		for line := range strings.Lines(string(b)) {
			f := strings.SplitN(strings.TrimSpace(line), ":", 3)
			switch {
			case strings.Contains(","+f[1]+",", ","+controller+","):
				path = "/sys/fs/cgroup/" + controller + f[2] + "/" + files[0]
			case f[1] == "" && path == "":
				path = "/sys/fs/cgroup" + f[2] + "/" + files[1]
			}
		}
		v, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("limit of %s: %v", controller, err)
			continue
		}
		if s := strings.TrimSpace(string(v)); s == "max" || s == "-1" || strings.HasPrefix(s, "max ") || len(s) > 18 {
			t.Errorf("%s of a VMM isn't limited: %s = %s", controller, path, s)
		}
	}
}

// TestRolesRunApart: each role is a process of its own with its own user, and only spaced-host is root.
func TestRolesRunApart(t *testing.T) {
	seen := map[int]instance.Role{}
	for _, r := range instance.Roles() {
		pids := processes(func(uid int, cmd string) bool {
			return r != instance.Postgres && strings.Contains(cmd, "space "+string(r)+" --instance "+platform.instance.Name) ||
				r == instance.Postgres && uid == platform.instance.UID(r) && strings.Contains(cmd, platform.instance.DataDir())
		})
		if len(pids) != 1 {
			t.Errorf("role %s: processes %v, want one", r, pids)
			continue
		}
		uid, _ := statusInt(pids[0], "Uid")
		if uid != platform.instance.UID(r) {
			t.Errorf("role %s runs as uid %d, want %d", r, uid, platform.instance.UID(r))
		}
		if other, ok := seen[uid]; ok {
			t.Errorf("roles %s and %s share uid %d", r, other, uid)
		}
		seen[uid] = r
		if r == instance.Host {
			continue
		}
		if status(pids[0], "CapEff") != "0000000000000000" {
			t.Errorf("role %s has capabilities %s", r, status(pids[0], "CapEff"))
		}
		if r != instance.Postgres && status(pids[0], "NoNewPrivs") != "1" {
			t.Errorf("role %s may gain privileges", r)
		}
	}
}
