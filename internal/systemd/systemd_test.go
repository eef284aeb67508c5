package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/supervise"
)

const password = "canary-1f7e"

// arrange returns an instance and its programs. Their binary is one that exists here: systemd-analyze looks.
func arrange(t *testing.T) (instance.Instance, []supervise.Program) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	i := instance.Instance{Name: "unitcheck", Slot: 7}
	var out []supervise.Program
	for _, r := range instance.Roles() {
		p := supervise.Program{
			Name: string(r), Path: self, Args: []string{string(r), "--instance", i.Name}, Env: []string{"PATH=/usr/bin:/bin", "TZ=UTC"},
			UID: i.UID(r), GID: i.UID(r), Groups: []int{i.GID()}, Stop: unix.SIGTERM, Grace: 15 * time.Second,
		}
		switch r {
		case instance.Postgres:
			p.Stop = unix.SIGINT
		case instance.Host:
			p.Env = append(p.Env, "https_proxy=http://user:"+password+"@proxy:3128")
		}
		out = append(out, p)
	}
	return i, out
}

// TestUnitsAreClean asks systemd's own checker, which says nothing of good units.
func TestUnitsAreClean(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatalf("%v: 'make setup' installs the package systemd, which doesn't run for it", err)
	}
	i, programs := arrange(t)
	for name, ps := range map[string][]supervise.Program{"private database": programs, "existing database": programs[1:]} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			args := []string{"verify", "--man=no"}
			for name, text := range Units(i, ps) {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				args = append(args, path)
			}
			slices.Sort(args[2:])
			if out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		})
	}
}

// TestCheckerFindsFaults keeps the test above from believing a checker that accepts all.
func TestCheckerFindsFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.service")
	if err := os.WriteFile(path, []byte("[Service]\nExecStart=/nowhere\nProtectSystme=strict\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", path).CombinedOutput(); err == nil && len(out) == 0 {
		t.Error("systemd-analyze finds nothing in a bad unit")
	}
}

// settings returns what a unit says, by key.
func settings(t *testing.T, unit string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for line := range strings.Lines(unit) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			out[key] = append(out[key], value)
		}
	}
	return out
}

func TestEachRoleIsConfinedAsFarAsItCanBe(t *testing.T) {
	i, programs := arrange(t)
	units := Units(i, programs)
	for _, p := range programs {
		got := settings(t, units[service(i, p.Name)])
		want := map[string][]string{
			"User": {i.User(instance.Role(p.Name))}, "Group": {i.User(instance.Role(p.Name))}, "SupplementaryGroups": {i.Group()},
			"NoNewPrivileges": {"yes"}, "CapabilityBoundingSet": {""}, "ProtectSystem": {"strict"}, "RestrictNamespaces": {"yes"},
			"KillMode": {"mixed"}, "KillSignal": {"SIGTERM"}, "PrivateDevices": {"yes"}, "PrivateUsers": nil, // peers know uids
			"Restart": {"always"}, "StartLimitIntervalSec": {"0"}, "PartOf": {target(i)},
		}
		switch instance.Role(p.Name) {
		case instance.Postgres:
			want["KillSignal"] = []string{"SIGINT"}
		case instance.Host: // root; its machines outlive it, and its next life finds what it mounted
			for _, key := range []string{"User", "Group", "SupplementaryGroups", "NoNewPrivileges", "ProtectSystem", "RestrictNamespaces", "PrivateDevices"} {
				want[key] = nil
			}
			want["KillMode"] = []string{"process"}
			delete(want, "CapabilityBoundingSet")
		}
		for key, values := range want {
			if !cmp.Equal(got[key], values) {
				t.Errorf("%s: %s is %q, want %q", p.Name, key, got[key], values)
			}
		}
	}
}

// TestHostSeesTheMachinesMounts: each of these keys would give spaced-host a mount namespace, where a restart hides the volume from it.
func TestHostSeesTheMachinesMounts(t *testing.T) {
	i, programs := arrange(t)
	for key := range settings(t, Units(i, programs)[service(i, string(instance.Host))]) {
		for _, prefix := range []string{
			"Protect", "Private", "ReadOnly", "ReadWrite", "Inaccessible", "Bind", "Temporary", "Mount", "Root", "NoExec", "Exec" + "Paths",
			"ProcSubset", "RuntimeDirectory", "StateDirectory", "CacheDirectory", "LogsDirectory", "ConfigurationDirectory", "DynamicUser",
		} {
			if strings.HasPrefix(key, prefix) {
				t.Errorf("spaced-host has %s", key)
			}
		}
	}
}

// TestSecretsStayOutOfUnits: every user of the machine can read a unit, and ask systemd for its environment.
func TestSecretsStayOutOfUnits(t *testing.T) {
	i, programs := arrange(t)
	for name, text := range Units(i, programs) {
		if strings.Contains(text, password) {
			t.Errorf("%s has a proxy's password", name)
		}
	}
	host := programs[slices.IndexFunc(programs, func(p supervise.Program) bool { return p.Name == string(instance.Host) })]
	text := environment(host)
	if want := "https_proxy=\"http://user:" + password + "@proxy:3128\"\n"; text != want {
		t.Errorf("its environment is %q, want %q", text, want)
	}
	path := filepath.Join(t.TempDir(), "environment")
	if err := keep(path, text); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v; want a file that root alone reads", st, err)
	}
	for range 2 { // the proxy has gone, and so does the file
		if err := keep(path, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the password of a proxy that is no longer used is still there")
	}
}

// TestInstallIsExactAndRemoveLeavesNothing installs for a private database, then for an existing one, beside another instance.
func TestInstallIsExactAndRemoveLeavesNothing(t *testing.T) {
	i, programs := arrange(t)
	programs = slices.DeleteFunc(programs, func(p supervise.Program) bool { return p.Name == string(instance.Host) }) // its environment has a place of its own
	s := Systemd{Dir: t.TempDir(), Booted: filepath.Join(t.TempDir(), "none")}
	other := filepath.Join(s.Dir, "space-api@unitchecks.service")
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, ps := range [][]supervise.Program{programs, programs[1:]} {
		if err := s.Install(t.Context(), i, ps); err != nil {
			t.Fatal(err)
		}
		var want []string
		for name := range Units(i, ps) {
			want = append(want, name)
		}
		if got := names(t, s.Dir); !cmp.Equal(got, sorted(append(want, filepath.Base(other)))) {
			t.Errorf("%d programs: %v", len(ps), got)
		}
	}
	wants := filepath.Join(s.Dir, "multi-user.target.wants")
	if err := os.Mkdir(wants, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(s.Dir, target(i)), filepath.Join(wants, target(i))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Remove(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, s.Dir); !cmp.Equal(got, []string{"multi-user.target.wants", filepath.Base(other)}) || len(names(t, wants)) > 0 {
		t.Errorf("left over: %v and %v", got, names(t, wants))
	}
}

// TestSystemdIsAskedForTheTarget has a systemctl that writes down what it's called with, and fails when told to.
func TestSystemdIsAskedForTheTarget(t *testing.T) {
	i, programs := arrange(t)
	programs = programs[1:3] // api and edge
	bin, booted := t.TempDir(), t.TempDir()
	calls := filepath.Join(bin, "calls")
	script := "#!/bin/sh\necho \"$*\" >>" + calls + "\n[ \"$1\" != stop ] || { echo no such unit >&2; exit 5; }\n"
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s := Systemd{Dir: t.TempDir(), Booted: booted}
	if s.Keeps(i) || s.Active(t.Context(), i) {
		t.Error("systemd keeps what it has no units of")
	}
	for _, do := range []func() error{
		func() error { return s.Install(t.Context(), i, programs) },
		func() error { return s.Restart(t.Context(), i, programs) },
		func() error { return s.Start(t.Context(), i) },
	} {
		if err := do(); err != nil {
			t.Error(err)
		}
	}
	if !s.Active(t.Context(), i) {
		t.Error("systemd doesn't keep what it has been told to")
	}
	if err := s.Stop(t.Context(), i); err == nil || !strings.Contains(err.Error(), "no such unit") {
		t.Errorf("a failed stop: %v", err)
	}
	if s.Booted = filepath.Join(bin, "none"); s.Keeps(i) {
		t.Error("systemd keeps a platform without running")
	}
	want := `daemon-reload
restart space-api@unitcheck.service space-edge@unitcheck.service
start space@unitcheck.target
is-active --quiet space@unitcheck.target
stop space@unitcheck.target space-api@unitcheck.service space-edge@unitcheck.service space-logs@unitcheck.service space-setup@unitcheck.service space-logs@unitcheck.timer
`
	if got, err := os.ReadFile(calls); err != nil || string(got) != want {
		t.Errorf("systemctl was called with\n%s%v, want\n%s", got, err, want)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return sorted(out)
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
