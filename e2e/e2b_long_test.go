//go:build e2e && long

package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/internal/instance"
)

var e2bSeed = flag.Uint64("e2b-seed", 8, "of the kills under E2B's SDKs")

const (
	// e2bClients are the clients that work at once on fake machines, machineClients those on real ones.
	e2bClients     = 50
	machineClients = 8
	// killClients and killTime are those that work while daemons are killed, one every killEvery.
	killClients = 3
	killTime    = 2 * time.Minute
	killEvery   = 6 * time.Second
)

// TestLongE2BConformance runs all that is known of E2B's SDKs, and counts by method, in build/e2b-conformance.json too.
func TestLongE2BConformance(t *testing.T) {
	needsBase(t)
	report := map[string]map[string]string{} // by SDK and method
	all := []outcome{}
	for _, s := range sdks {
		for _, flavour := range s.flavours {
			t.Run(s.name+"/"+flavour, func(t *testing.T) {
				for _, o := range runSuite(t, s, flavour) {
					of := report[o.SDK]
					if of == nil {
						of = map[string]string{}
						report[o.SDK] = of
					}
					if worst := []string{"passed", "unsupported", "failed"}; slices.Index(worst, o.Result) >= slices.Index(worst, cmp.Or(of[o.Method], "passed")) {
						of[o.Method] = o.Result
					}
					all = append(all, o)
				}
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(report)) {
		count := map[string]int{}
		var not []string
		for _, method := range slices.Sorted(maps.Keys(report[name])) {
			result := report[name][method]
			count[result]++
			if result != "passed" {
				not = append(not, method+" "+result)
			}
		}
		t.Logf("%s: %d methods passed, %d failed, %d not supported: %s", name, count["passed"], count["failed"], count["unsupported"], strings.Join(not, ", "))
	}
	b, err := json.MarshalIndent(map[string]any{"methods": report, "checks": all}, "", "  ")
	if err == nil {
		err = errors.Join(os.MkdirAll("../build", 0o755), os.WriteFile("../build/e2b-conformance.json", append(b, '\n'), 0o644))
	}
	if err != nil {
		t.Error(err)
	}
}

// worked is one call of a client that works.
type worked struct {
	Call       string  `json:"call"`
	Error      string  `json:"error"`
	Documented bool    `json:"documented"`
	Why        string  `json:"why"`
	Seconds    float64 `json:"seconds"`
}

func work(t *testing.T, s sdk, env []string, args ...string) []worked {
	t.Helper()
	var out []worked
	for _, line := range runSDK(t, s, env, "work.py", args...) {
		var w worked
		if err := json.Unmarshal(line, &w); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, w)
	}
	return out
}

// TestLongE2BClientsAtOnce has 50 clients of each Python SDK create a sandbox, run a command and kill it, all at once. The machines are fake, processes
// of this one, so that it's our programs that are loaded and not an emulated processor.
func TestLongE2BClientsAtOnce(t *testing.T) {
	env := loadPlatform(t)
	for _, s := range sdks {
		if s.suite != "suite.py" {
			continue
		}
		calls := map[string]int{}
		longest := 0.0
		for _, w := range work(t, s, env, fmt.Sprint(e2bClients)) {
			if w.Error != "" {
				t.Errorf("%s: %s: %s: %s", s.name, w.Call, w.Error, w.Why)
			}
			calls[w.Call]++
			longest = max(longest, w.Seconds)
		}
		for _, call := range workCalls {
			if calls[call] != e2bClients {
				t.Errorf("%s: %s was called %d times", s.name, call, calls[call])
			}
		}
		t.Logf("%s: %d clients at once, each call within %.1f s", s.name, e2bClients, longest)
	}
}

// TestLongE2BClientsOnMachines has clients of each Python SDK do seeded work at once, on machines of the platform that is tested: as many as two processors
// emulate within the SDKs' own times.
func TestLongE2BClientsOnMachines(t *testing.T) {
	needsBase(t)
	env, err := e2bEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sdks {
		if s.suite != "suite.py" {
			continue
		}
		began := time.Now()
		calls := map[string]int{}
		for _, w := range work(t, s, env, fmt.Sprint(machineClients), "0", fmt.Sprint(*e2bSeed)) {
			if w.Error != "" {
				t.Errorf("%s: %s: %s: %s", s.name, w.Call, w.Error, w.Why)
			}
			calls[w.Call]++
		}
		for _, call := range workCalls {
			if calls[call] != machineClients {
				t.Errorf("%s: %s was called %d times", s.name, call, calls[call])
			}
		}
		t.Logf("%s: %d clients at once on real machines, seed %d, %.0f s", s.name, machineClients, *e2bSeed, time.Since(began).Seconds())
	}
}

// workCalls are those of each client that works.
var workCalls = []string{"create", "run", "write", "read", "remove", "kill"}

// loadPlatform starts a platform of fake machines for the test, and returns what the SDKs need to know of it.
func loadPlatform(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	name := platform.instance.Name + "sdk"
	bin := filepath.Join(dir, "space")
	do := func(program string, args ...string) []byte {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "HOME="+dir, "GOCACHE="+goCache(t))
		out, err := cmd.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%s %v: %v: %s", program, args, err, exit.Stderr)
		}
		if err != nil {
			t.Fatalf("%s %v: %v", program, args, err)
		}
		return out
	}
	do("go", "build", "-trimpath", "-buildvcs=false", "-tags", "load", "-o", bin, "./cmd/space")
	do("go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(dir, "spaced-guest"), "./cmd/spaced-guest")
	t.Cleanup(func() { do(bin, "purge", "--yes", "--instance", name) })
	do(bin, "up", "--instance", name)
	do(bin, "template", "build", "base", "--instance", name)
	var vars map[string]string
	if err := json.Unmarshal(do(bin, "e2b", "env", "--instance", name, "-o", "json"), &vars); err != nil {
		t.Fatal(err)
	}
	var env []string
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	return env
}

func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestLongE2BKilledDaemons kills the daemons below the SDKs while they work: each call succeeds, or fails with an error of the SDK's own. When it's over
// all of them succeed.
func TestLongE2BKilledDaemons(t *testing.T) {
	needsBase(t)
	env, err := e2bEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	s := sdks[0]
	s.install(t)
	rng := rand.New(rand.NewPCG(*e2bSeed, 0))
	victims := []instance.Role{instance.API, instance.Edge, instance.NodeAPI, instance.Manager, instance.Host, instance.Postgres}
	done := make(chan struct{})
	go func() {
		defer close(done)
		end := time.After(killTime)
		for {
			select {
			case <-end:
				return
			case <-time.After(killEvery):
				kill(t, victims[rng.IntN(len(victims))])
			}
		}
	}()
	calls, failed := 0, 0
	for _, w := range work(t, s, env, fmt.Sprint(killClients), fmt.Sprint(killTime.Seconds())) {
		calls++
		if w.Error == "" {
			continue
		}
		failed++
		t.Logf("%s: %s: %s", w.Call, w.Error, w.Why)
		if !w.Documented {
			t.Errorf("%s fails with %s, which the SDK doesn't document: %s", w.Call, w.Error, w.Why)
		}
	}
	<-done
	t.Logf("seed %d: %d calls, of which %d failed", *e2bSeed, calls, failed)
	for _, w := range work(t, s, env, "1") {
		if w.Error != "" {
			t.Errorf("afterwards: %s: %s: %s", w.Call, w.Error, w.Why)
		}
	}
}
