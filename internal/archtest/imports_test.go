// Package archtest holds the laws of the tree as tests: who may import whom, and that every package says what it is for.
package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/space-platform/space"

type pkg struct {
	ImportPath string
	Name       string
	Doc        string
	Imports    []string
	GoFiles    []string
}

// law forbids imports. A rule speaks of a package and everything below it.
type law struct {
	of     string   // the importing tree, relative to the module; "." is the root package alone
	never  []string // trees of the module that it must not import
	only   []string // if set: the only trees of the module that it may import
	reason string
}

var halves = []string{"internal/control", "internal/edge", "internal/node", "internal/host", "internal/guest", "internal/cli", "internal/e2b", "client"}

func except(trees []string, keep ...string) []string {
	return slices.DeleteFunc(slices.Clone(trees), func(t string) bool { return slices.Contains(keep, t) })
}

var laws = []law{
	{of: ".", only: []string{}, reason: "the vocabulary must stay importable everywhere"},
	{of: "api", only: []string{"api"}, reason: "the contract knows no implementation"},
	{of: "client", only: []string{"api"}, reason: "users of the SDK inherit nothing of the servers"},
	{of: "internal/control", never: append(except(halves, "internal/control"), "internal/postgres"), reason: "halves meet in api/; the store is handed in"},
	{of: "internal/postgres", never: except(halves, "internal/control"), reason: "the store serves the control plane only"},
	{of: "internal/edge", never: append(except(halves, "internal/edge"), "internal/postgres"), reason: "halves meet in api/"},
	{of: "internal/node", never: append(except(halves, "internal/node"), "internal/postgres"), reason: "halves meet in api/"},
	{of: "internal/host", never: append(except(halves, "internal/host"), "internal/postgres"), reason: "halves meet in api/"},
	{of: "internal/guest", only: []string{".", "api", "internal/guest"}, reason: "the guest's binary stays small and knows nothing of the platform"},
	{of: "cmd/spaced-guest", only: []string{".", "api", "internal/guest"}, reason: "the guest's binary stays small and knows nothing of the platform"},
	{of: "internal/cli", never: append(except(halves, "internal/cli", "client"), "internal/postgres"), reason: "the CLI is a client of the public API"},
	{of: "internal/e2b", only: []string{".", "api", "client", "internal/public", "internal/telemetry", "internal/durable"}, reason: "it's a client of the public API and nothing more"},
	{of: "internal/instance", only: []string{}, reason: "a kit that knows the domain isn't a kit"},
	{of: "internal/proc", only: []string{}, reason: "a kit that knows the domain isn't a kit"},
	{of: "internal/durable", only: []string{}, reason: "a kit that knows the domain isn't a kit"},
	{of: "internal/telemetry", only: []string{}, reason: "a kit that knows the domain isn't a kit"},
	{of: "internal/strictjson", only: []string{"."}, reason: "it reads JSON, with the errors of the vocabulary"},
	{of: "internal/peer", only: []string{".", "api", "internal/telemetry"}, reason: "it carries the vocabulary over sockets, and what a request's id is, and nothing else"},
	{of: "internal/public", only: []string{".", "internal/peer"}, reason: "it serves any handler, and knows none"},
	{of: "internal/host/vmm/qemu", never: []string{"internal/host/jail", "internal/host/netns", "internal/host/disk"}, reason: "a driver is handed an enclosure and never makes one"},
	{of: "internal/host/vmm/firecracker", never: []string{"internal/host/jail", "internal/host/netns", "internal/host/disk"}, reason: "a driver is handed an enclosure and never makes one"},
	{of: "internal/host/vmm/fake", never: []string{"internal/host/jail", "internal/host/netns", "internal/host/disk"}, reason: "a driver is handed an enclosure and never makes one"},
}

func TestImportLaw(t *testing.T) {
	pkgs := list(t)
	for _, p := range pkgs {
		for _, l := range laws {
			if !within(rel(p.ImportPath), l.of) {
				continue
			}
			for _, imp := range p.Imports {
				if bad(imp, l, rel(p.ImportPath)) {
					t.Errorf("%s imports %s: %s", rel(p.ImportPath), rel(imp), l.reason)
				}
			}
		}
		if rel(p.ImportPath) == "." {
			for _, imp := range p.Imports {
				if strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
					t.Errorf("the root package imports %s: the standard library only", imp)
				}
			}
		}
	}
}

func TestNobodyImportsCmd(t *testing.T) {
	for _, p := range list(t) {
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, module+"/cmd/") {
				t.Errorf("%s imports %s: cmd is wiring only", rel(p.ImportPath), rel(imp))
			}
		}
	}
}

// TestNoFakeIsInstalled keeps machines that separate nothing out of what operators install, whatever a configuration says.
func TestNoFakeIsInstalled(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"/cmd/space").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, module+"/internal/host/vmm/qemu") {
		t.Fatal("the list lacks a driver that the program has")
	}
	for _, fake := range []string{"internal/host/vmm/fake", "internal/host/loadtest"} {
		if slices.Contains(deps, module+"/"+fake) {
			t.Errorf("cmd/space depends on %s", fake)
		}
	}
}

// TestLawsSpeakOfSomething keeps a renamed folder from silently escaping its law.
func TestLawsSpeakOfSomething(t *testing.T) {
	pkgs := list(t)
	for _, l := range laws {
		if !slices.ContainsFunc(pkgs, func(p pkg) bool { return within(rel(p.ImportPath), l.of) }) {
			t.Errorf("a law speaks of %s, where no package is", l.of)
		}
	}
}

func TestPackagesSayWhatTheyAreFor(t *testing.T) {
	drawers := []string{"util", "utils", "common", "helper", "helpers", "misc", "types", "models", "shared", "base", "manager-of-managers"}
	for _, p := range list(t) {
		if strings.HasPrefix(rel(p.ImportPath), "api/gen/") || rel(p.ImportPath) == "internal/postgres/db" {
			continue // generated
		}
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment", rel(p.ImportPath))
		}
		if slices.Contains(drawers, p.Name) {
			t.Errorf("%s: a package is named for what it provides, not %q", rel(p.ImportPath), p.Name)
		}
	}
}

func bad(imp string, l law, self string) bool {
	if imp != module && !strings.HasPrefix(imp, module+"/") {
		return false
	}
	r := rel(imp)
	if within(r, l.of) && l.of != "." {
		return false
	}
	if l.only != nil && !slices.ContainsFunc(l.only, func(o string) bool { return within(r, o) }) && r != self {
		return true
	}
	return slices.ContainsFunc(l.never, func(n string) bool { return within(r, n) })
}

func rel(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

// within reports whether a package is the root of a tree or below it; "." is the root package alone.
func within(p, tree string) bool {
	return p == tree || tree != "." && strings.HasPrefix(p, tree+"/")
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-tags", "vm", "-json=ImportPath,Name,Doc,Imports,GoFiles", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		var e *exec.ExitError
		if errors.As(err, &e) {
			t.Fatalf("list the packages: %v\n%s", err, e.Stderr)
		}
		t.Fatalf("list the packages: %v", err)
	}
	var pkgs []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}
