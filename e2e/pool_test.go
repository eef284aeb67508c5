//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// metric reads one line of a role's metrics; 0 if it has none.
func metric(t *testing.T, r instance.Role, line string) int {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + ` (\d+)$`).FindStringSubmatch(metrics(t, r))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // the expression takes digits only
	return n
}

// metrics reads all of a role's metrics; it's empty while the role is being restarted.
func metrics(t *testing.T, r instance.Role) string {
	t.Helper()
	port, _ := platform.instance.OpsPort(r)
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(b)
}

const (
	waitingSlots = `space_host_pool_slots{state="waiting"}`
	poolHits     = `space_host_pool_claims_total{result="hit"}`
)

// awaitSlots waits until a machine of each template waits, if the platform under test has a pool; else none does.
func awaitSlots(t *testing.T) {
	t.Helper()
	if !pooled() {
		if n := metric(t, instance.Host, waitingSlots); n > 0 {
			t.Errorf("%d machines wait in a pool of none", n)
		}
		return
	}
	eventually(t, callDeadline, "a machine of each template waits", func() bool { return metric(t, instance.Host, waitingSlots) >= len(templates()) })
}

// poolTries is how many creations may find no machine while others wait.
const poolTries = 5

// TestPool: a sandbox gets a machine that waited, where any does, and what two have in common is the template's.
func TestPool(t *testing.T) {
	hits := 0
	if pooled() {
		hits = 1
	}
	var boxes [2]client.Sandbox
	var said [2]string
	for i := range boxes {
		for try := 1; ; try++ { // what waits may be of another template or size
			awaitSlots(t)
			before := metric(t, instance.Host, poolHits)
			boxes[i] = create(t, "mini")
			after := metric(t, instance.Host, poolHits)
			if after == before+hits {
				break
			}
			if hits == 0 || try == poolTries {
				t.Errorf("%d creations found a machine, want %d more than %d", after, hits, before)
				break
			}
		}
		r := runIn(t, boxes[i], client.SessionCreate{Shell: ptr("hostname; head -c 16 /dev/urandom | od -An -tx1; date +%s")})
		said[i] = string(r.stdout)
	}
	for i, s := range boxes {
		if want := "sbx-" + strings.TrimPrefix(s.Id, "sbx_"); !strings.HasPrefix(said[i], want+"\n") {
			t.Errorf("the guest says %q, want its name to be %s", said[i], want)
		}
	}
	if random := func(i int) string { return strings.Split(said[i], "\n")[1] }; random(0) == random(1) {
		t.Errorf("two sandboxes drew the same random bytes: %q", random(0))
	}
}

// TestKilledHostLeavesNoSlot: machines that waited are nobody's and go; a sandbox whose machine once waited lives on.
func TestKilledHostLeavesNoSlot(t *testing.T) {
	if !pooled() {
		t.Skip("the platform under test has no pool")
	}
	awaitSlots(t)
	s := create(t, "mini")
	machine, label := vmm(t, s), home(t, s)
	if label == strings.TrimPrefix(s.Execution.Id, "exe_") {
		t.Fatal("the sandbox's machine isn't one that waited")
	}
	awaitSlots(t)
	slots := func() []string {
		var out []string
		all, _ := filepath.Glob(filepath.Join(platform.instance.Volume(), "executions", "*"))
		for _, dir := range all {
			if records, _ := filepath.Glob(filepath.Join(dir, "record.json")); len(records) == 0 {
				out = append(out, filepath.Base(dir))
			}
		}
		return out
	}
	old := slots()
	if len(old) == 0 {
		t.Fatal("the test looks in the wrong place: no machine waits")
	}
	kill(t, instance.Host)
	eventually(t, callDeadline, "what the killed daemon left is gone", func() bool {
		for _, name := range old {
			if left, _ := filepath.Glob(filepath.Join(platform.instance.Volume(), "executions", name)); len(left) > 0 || len(held(name)) > 0 {
				return false
			}
		}
		return true
	})
	awaitSlots(t)
	if again := vmm(t, s); again != machine {
		t.Errorf("the sandbox's machine was %d and is %d", machine, again)
	}
	runIn(t, s, client.SessionCreate{Argv: argv("echo", "still here")}).want(t, 0, "still here\n", "")
}
