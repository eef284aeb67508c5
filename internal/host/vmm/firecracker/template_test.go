package firecracker_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker"
	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
)

func TestATemplateIsReadWithoutWhiteSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cpu.json")
	for text, want := range map[string]string{
		"{ \"cpuid_modifiers\": [] }\n":        `{"cpuid_modifiers":[]}`,
		"":                                     "isn't a JSON object",
		"[]":                                   "isn't a JSON object",
		"null":                                 "isn't a JSON object",
		"{} {}":                                "isn't a JSON object",
		"{" + strings.Repeat(" ", 51200) + "}": "more than 51200 bytes",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := firecracker.ReadTemplate(path)
		if err == nil && string(got) != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %s, %v, want %q", text, got, err, want)
		}
	}
	if got, err := firecracker.ReadTemplate(""); got != nil || err != nil {
		t.Errorf("no file: %s, %v", got, err)
	}
	if _, err := firecracker.ReadTemplate(path + ".missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestWhatIsChosenReachesFirecracker boots and loads with a CPU template and limits, and loads what was made with them elsewhere.
func TestWhatIsChosenReachesFirecracker(t *testing.T) {
	var asked trace
	cpu := json.RawMessage(`{"cpuid_modifiers":[]}`)
	d := chosenDriver(t, firecracker.Config{CPU: cpu, ReceiveBytes: 10_000_000, SendBytes: 500_000, Trace: asked.note})
	load := saved(t, d)
	s := &twins{t: t}
	mustLoad(t, d, s.enclosure(), load)
	const receive, send = `{"bandwidth":{"size":1000000,"refill_time":100}}`, `{"bandwidth":{"size":50000,"refill_time":100}}`
	for call, want := range map[string]string{
		"PUT /cpu-config":               string(cpu),
		"PUT /network-interfaces/net":   `{"iface_id":"net","host_dev_name":"tap0","guest_mac":"06:00:ac:10:00:02","rx_rate_limiter":` + receive + `,"tx_rate_limiter":` + send + `}`,
		"PATCH /network-interfaces/net": `{"iface_id":"net","rx_rate_limiter":` + receive + `,"tx_rate_limiter":` + send + `}`,
	} {
		if diff := cmp.Diff(want, asked.body(call)); diff != "" {
			t.Errorf("%s: %s", call, diff)
		}
	}
	var other trace
	unlimited := chosenDriver(t, firecracker.Config{CPU: cpu, Trace: other.note})
	mustLoad(t, unlimited, s.enclosure(), load)
	const none = `{"iface_id":"net","rx_rate_limiter":{"bandwidth":{"size":0,"refill_time":0}},"tx_rate_limiter":{"bandwidth":{"size":0,"refill_time":0}}}`
	if diff := cmp.Diff(none, other.body("PATCH /network-interfaces/net")); diff != "" {
		t.Errorf("without limits: %s", diff)
	}
	for name, template := range map[string]json.RawMessage{"another": json.RawMessage(`{"msr_modifiers":[]}`), "no": nil} {
		if _, err := chosenDriver(t, firecracker.Config{CPU: template}).Load(t.Context(), s.enclosure(), load); !errors.Is(err, vmm.ErrIncompatible) {
			t.Errorf("loaded with %s template: %v, want ErrIncompatible", name, err)
		}
	}
}

// chosenDriver is a twin's driver with what an operator chose.
func chosenDriver(t *testing.T, c firecracker.Config) *firecracker.Driver {
	t.Helper()
	programs := install(t, "1.16.1", "1.16.1")
	c.Program, c.Jailer = programs.Program, programs.Jailer
	d, err := firecracker.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustLoad(t *testing.T, d *firecracker.Driver, e vmm.Enclosure, l vmm.Load) {
	t.Helper()
	m, err := d.Load(t.Context(), e, l)
	if err != nil {
		t.Fatal(err)
	}
	m.Kill(t.Context())
	m.Close()
}

// trace keeps what was asked last of each call.
type trace struct {
	mu    sync.Mutex
	asked map[string]string
}

func (c *trace) note(x api.Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[string]string{}
	}
	c.asked[x.Method+" "+x.Path] = string(x.Body)
}

func (c *trace) body(call string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[call]
}
