package doctor

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/space-platform/space/internal/instance"
)

func TestWhatIsSaidOfFirecracker(t *testing.T) {
	for name, c := range map[string]struct {
		facts  firecrackerFacts
		state  State
		detail string
		fix    string
	}{
		"works":             {firecrackerFacts{version: "1.15.1", kvm: true}, OK, "a guest boots with version 1.15.1", ""},
		"with choices":      {firecrackerFacts{version: "1.15.1", kvm: true, keys: []string{"cpu_template"}, forced: true, chosen: "; CPU template /t"}, OK, "version 1.15.1; CPU template /t", ""},
		"a template hides":  {firecrackerFacts{version: "1.16.1", kvm: true, keys: []string{"cpu_template"}, forced: true, hides: true, config: "/c"}, Warn, "version 1.16.1", "sed -i /^cpu_template/d /c"},
		"choices for QEMU":  {firecrackerFacts{version: "1.15.1", kvm: true, other: "qemu", keys: []string{"cpu_template"}, forced: true}, Fail, "chooses qemu, which doesn't do what it says with cpu_template", ""},
		"absent":            {firecrackerFacts{kvm: true}, Info, "not installed", setupFirecracker},
		"absent and wanted": {firecrackerFacts{kvm: true, forced: true}, Fail, "not installed", setupFirecracker},
		"too old":           {firecrackerFacts{kvm: true, broken: "it's version 1.14.2, which isn't supported"}, Warn, "isn't supported", setupFirecracker},
		"too old and named": {firecrackerFacts{kvm: true, broken: "it's version 1.14.2", named: true, config: "/c"}, Warn, "1.14.2", `sed -i -E '/^(firecracker|jailer)\b/d' /c && ` + setupFirecracker},
		"no template":       {firecrackerFacts{kvm: true, cpu: "no such file", keys: []string{"cpu_template"}, forced: true, config: "/c"}, Fail, "no such file", "sed -i /^cpu_template/d /c"},
		"no KVM":            {firecrackerFacts{version: "1.15.1", broken: "x"}, Info, "there is no /dev/kvm", loadKVM},
		"no KVM and wanted": {firecrackerFacts{version: "1.15.1", broken: "x", forced: true}, Fail, "there is no /dev/kvm", loadKVM},
		"broken KVM":        {firecrackerFacts{version: "1.15.1", broken: "a guest ended", kvm: true}, Info, "a guest ended", readKVM},
	} {
		v := judgeFirecracker(c.facts)
		if v.state != c.state || !strings.Contains(v.detail, c.detail) || v.fix != c.fix || (v.state != OK) != (v.meaning != "") {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestWhatTheConfigurationNamesIsLookedAt has each path in a configuration lead to something that can't be used, which is said of that path.
func TestWhatTheConfigurationNamesIsLookedAt(t *testing.T) {
	says := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho '"+text+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	vmm, jailer := says("firecracker", "Firecracker v1.15.1"), says("jailer", "Jailer v1.15.1")
	for name, c := range map[string]struct {
		config instance.Config
		want   string
	}{
		"no firecracker":   {instance.Config{Firecracker: "/nowhere/firecracker", Jailer: jailer}, "/nowhere/firecracker"},
		"no jailer":        {instance.Config{Firecracker: vmm, Jailer: "/nowhere/jailer"}, "/nowhere/jailer"},
		"another's jailer": {instance.Config{Firecracker: vmm, Jailer: says("jailer", "Jailer v1.16.1")}, "must be of one release"},
		"too old":          {instance.Config{Firecracker: says("firecracker", "Firecracker v1.14.2"), Jailer: jailer}, "isn't supported: 1.16.x and 1.15.x are"},
		"no template":      {instance.Config{Firecracker: vmm, Jailer: jailer, CPUTemplate: "/nowhere/cpu.json"}, "/nowhere/cpu.json"},
	} {
		v := lookFirecracker(t.Context(), Options{Config: c.config})
		if v.state == OK || v.state == Info || !strings.Contains(v.detail, c.want) || !strings.HasPrefix(v.fix, "sed ") {
			t.Errorf("%s: %+v, want %q", name, v, c.want)
		}
	}
}

// TestARefusedTemplateIsBlamed has a program that boots nothing with a CPU template, and one that boots nothing at all.
func TestARefusedTemplateIsBlamed(t *testing.T) {
	for commands, blamed := range map[string]bool{
		`grep -q cpu-config "$3" && { echo "no such register"; exit 1; }; echo ` + guestWord: true,
		`echo "no KVM"; exit 1`: false,
	} {
		program := filepath.Join(t.TempDir(), "firecracker")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+commands+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		o := Options{Config: instance.Config{Firecracker: program, CPUTemplate: "/t"}, CacheDir: t.TempDir()}
		for range 2 { // the second answer is from the cache
			if err := boots(t.Context(), o, "1.16.1", []byte("{}")); err == nil || errors.Is(err, errTemplate) != blamed {
				t.Errorf("%q: %v, want the template blamed: %v", commands, err, blamed)
			}
		}
	}
}

func TestFromWhichKernelOnATemplateHides(t *testing.T) {
	for release, want := range map[string]bool{"6.1.0-18-amd64": false, "6.12.9": false, "6.13.0": true, "6.18.44": true, "": false} {
		if got := hidesDefences(release); got != want {
			t.Errorf("%q: %v, want %v", release, got, want)
		}
	}
}

func TestWhatIsChosenIsTold(t *testing.T) {
	for want, c := range map[string]instance.Config{
		"": {},
		"; CPU template /t; networks receive 200000 bytes/s at most; networks send 100000 bytes/s at most": {CPUTemplate: "/t", NetworkReceiveBytes: 200000, NetworkSendBytes: 100000},
	} {
		if got := chosen(c); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}

func TestWhatAnEndOfFirecrackerMeans(t *testing.T) {
	for name, c := range map[string]struct {
		ctxErr, err error
		output      string
		want        string
	}{
		"counted":  {nil, nil, "Running Firecracker\n" + guestWord + "exiting successfully", ""},
		"crashed":  {nil, nil, "Running Firecracker\nexiting successfully", "without having counted"},
		"refused":  {nil, &exec.ExitError{}, "x\nCannot open /dev/kvm\n", "Cannot open /dev/kvm"},
		"too slow": {context.DeadlineExceeded, errors.New("killed"), "", "wasn't done after"},
	} {
		err := firecrackerResult(c.ctxErr, c.err, c.output, guestDeadline)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestTheTinyKernelIsAnExecutable(t *testing.T) {
	f, err := elf.NewFile(bytes.NewReader(guestELF()))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Progs) != 1 || f.Progs[0].Type != elf.PT_LOAD || f.Entry != f.Progs[0].Paddr || f.Machine != elf.EM_X86_64 {
		t.Fatalf("%+v, %+v", f.FileHeader, f.Progs)
	}
	code, err := io.ReadAll(f.Progs[0].Open())
	if err != nil || code[0] != 0xb9 || code[len(code)-1] != 0xf4 {
		t.Errorf("its code is %x, %v", code, err)
	}
}
