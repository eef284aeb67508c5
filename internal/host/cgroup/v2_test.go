package cgroup

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fake is a directory that looks like a cgroup2 tree: a real one of this kind isn't on every machine. Control files are made
// beforehand, as the kernel does when it makes the directory.
func fake(t *testing.T, files map[string]string) Hierarchy {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Hierarchy{version: 2, roots: map[string]string{"": root}}
}

func TestV2GroupIsLimited(t *testing.T) {
	h := fake(t, map[string]string{
		"cgroup.subtree_control": "", "space/cgroup.subtree_control": "",
		"space/x/memory.max": "", "space/x/memory.oom.group": "", "space/x/cpu.max": "", "space/x/cpu.weight": "", "space/x/pids.max": "", "space/x/cgroup.procs": "",
	})
	g, err := h.Group("space/x")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Create(Limits{MemoryBytes: 1 << 30, CPUMillis: 1500, CPUWeight: 25, PIDs: 64}); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(42); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"cgroup.subtree_control": "+memory +cpu +pids", "space/cgroup.subtree_control": "+memory +cpu +pids",
		"space/x/memory.max": "1073741824", "space/x/memory.oom.group": "1", "space/x/cpu.max": "150000 100000", "space/x/cpu.weight": "25", "space/x/pids.max": "64",
		"space/x/cgroup.procs": "42",
	}
	got := maps.Clone(want)
	for name := range want {
		b, err := os.ReadFile(filepath.Join(h.root(""), name))
		if err != nil {
			t.Error(err)
		}
		got[name] = string(b)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestV2Usage(t *testing.T) {
	h := fake(t, map[string]string{
		"x/memory.current": "4096\n", "x/memory.events": "low 0\noom 2\noom_kill 1\n", "x/pids.current": "3\n",
		"x/cpu.stat": "usage_usec 7\nuser_usec 5\n", "x/cgroup.procs": "5\n6\n0\n5\n",
	})
	g, err := h.Group("x")
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.Usage()
	want := Usage{MemoryBytes: 4096, CPUNanos: 7000, PIDs: 3, OOMKills: 1}
	if err != nil || got != want {
		t.Errorf("Usage = %+v, %v, want %+v", got, err, want)
	}
	pids, err := g.Processes()
	if err != nil || !cmp.Equal(pids, []int{5, 6}) {
		t.Errorf("Processes = %v, %v", pids, err)
	}
}

func TestNoLimitIsMax(t *testing.T) {
	for _, s := range settingsV2(Limits{}) {
		if s.file == "cpu.weight" { // not a limit
			continue
		}
		if s.controller != "memory" && !strings.HasPrefix(s.value, "max") || s.file == "memory.max" && s.value != "max" {
			t.Errorf("%s = %q without a limit", s.file, s.value)
		}
	}
}

func TestParseMounts(t *testing.T) {
	const info = `25 20 0:23 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
26 20 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
27 20 0:25 / /elsewhere rw - cgroup cgroup rw,memory
28 20 0:26 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
29 20 0:27 / /sys/fs/cgroup/unified rw shared:1 - cgroup2 cgroup2 rw
a line of another kind`
	unified, v1, err := parseMounts(strings.NewReader(info))
	want := map[string]string{"cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct", "memory": "/sys/fs/cgroup/memory"}
	if err != nil || unified != "/sys/fs/cgroup/unified" || !cmp.Equal(v1, want) {
		t.Errorf("parseMounts = %q, %v, %v", unified, v1, err)
	}
	if got := missing(v1Controllers, []string{"memory", "cpu"}); !cmp.Equal(got, []string{"pids", "cpuacct", "freezer"}) {
		t.Errorf("missing = %v", got)
	}
}
