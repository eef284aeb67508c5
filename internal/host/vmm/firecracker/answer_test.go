//go:build firecracker

package firecracker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/pager"
)

// TestFirstAnswer measures how long it takes from the beginning of a load to the guest's first answer, for the ways in which memory comes. The figures
// are logged and not judged.
func TestFirstAnswer(t *testing.T) {
	enclosure := jailed(t)
	d := driver(t, nil)
	if !d.Capabilities().PagedMemory {
		t.Fatal(pager.Available())
	}
	b := makeBase(t, d, enclosure(t))
	set := filepath.Join(t.TempDir(), "working-set")
	recordSet(t, d, b, enclosure(t), set)
	for _, cold := range []bool{false, true} {
		for _, way := range []struct {
			name  string
			pages *vmm.Pages
		}{{"mapped", nil}, {"paged", &vmm.Pages{}}, {"paged with a working set", &vmm.Pages{WorkingSet: set, Snapshot: "answer"}}} {
			var times, loads []time.Duration
			said := ""
			for range ratioRounds {
				if cold {
					must(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0))
				}
				load, answer, figures := firstAnswer(t, d, b, enclosure(t), way.pages)
				times, loads, said = append(times, answer), append(loads, load), figures
			}
			t.Logf("%s, file in the page cache: %t: loaded after %s, first answer after %s %s", way.name, !cold,
				median(loads).Round(time.Millisecond), median(times).Round(time.Millisecond), said)
		}
	}
}

func firstAnswer(t *testing.T, d vmm.Driver, b base, e vmm.Enclosure, p *vmm.Pages) (load, answer time.Duration, figures string) {
	t.Helper()
	begun := time.Now()
	m, err := d.Load(t.Context(), e, vmm.Load{Shape: ratioShape, State: b.state, Memory: b.memory, Manifest: b.manifest, Pages: p})
	load = time.Since(begun)
	must(t, err)
	defer end(m)
	talk(t, m.DialGuest)
	answer = time.Since(begun)
	if p == nil {
		return load, answer, ""
	}
	figures = "(its pager: " + anonymousOf(t, m) + "; "
	killVMM(t, m)
	report, err := os.ReadFile(filepath.Join(e.Dir, "pages.json"))
	must(t, err)
	return load, answer, figures + string(regexp.MustCompile(`\{"ended".*\}`).Find(report)) + ")"
}

// killVMM ends a machine so that its pager ends by itself, and reports.
func killVMM(t *testing.T, m vmm.Machine) {
	t.Helper()
	p, err := os.FindProcess(m.Handle().PID)
	must(t, err, p.Kill())
	<-m.Done()
	pid := pagerOf(t, m)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("the pager goes on")
		case <-time.After(time.Millisecond):
		}
	}
}

func pagerOf(t *testing.T, m vmm.Machine) int {
	t.Helper()
	var spec struct{ Pager vmm.Handle }
	must(t, json.Unmarshal([]byte(m.Handle().Details["machine"]), &spec))
	return spec.Pager.PID
}

// anonymousOf is the memory of a machine's pager that is its own.
func anonymousOf(t *testing.T, m vmm.Machine) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pagerOf(t, m)))
	must(t, err)
	return string(regexp.MustCompile(`RssAnon:\s+\d+ kB`).Find(b))
}

// recordSet records the working set of a snapshot.
func recordSet(t *testing.T, d vmm.Driver, b base, e vmm.Enclosure, set string) {
	t.Helper()
	m, err := d.Load(t.Context(), e, vmm.Load{
		Shape: ratioShape, State: b.state, Memory: b.memory, Manifest: b.manifest, Pages: &vmm.Pages{WorkingSet: set, Snapshot: "answer"},
	})
	must(t, err)
	defer end(m)
	talk(t, m.DialGuest)
	ctx, cancel := context.WithTimeout(t.Context(), 10*pager.RecordTime)
	defer cancel()
	for {
		if info, err := os.Stat(set + pager.RecordSuffix); err == nil && info.Size() > 0 {
			t.Logf("the working set has %d bytes", info.Size())
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("no working set was recorded")
		case <-time.After(50 * time.Millisecond):
		}
	}
}
