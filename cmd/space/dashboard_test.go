package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/space-platform/space/internal/host/execution"
	"github.com/space-platform/space/internal/postgres"
	"github.com/space-platform/space/internal/telemetry"
)

var (
	describedRE = regexp.MustCompile(`fqName: "([^"]+)"`)
	usedRE      = regexp.MustCompile(`\b(?:space|go|process)_[a-z0-9_]+`)
	nameRE      = regexp.MustCompile(`^space(_[a-z]+)+$`)
)

// described are the names of all metrics that any role has.
func described(t *testing.T) []string {
	t.Helper()
	descs, done := make(chan *prometheus.Desc), make(chan []string)
	go func() {
		var names []string
		for d := range descs {
			names = append(names, describedRE.FindStringSubmatch(d.String())[1])
		}
		done <- names
	}()
	telemetry.Describe(descs)
	postgres.Figures(nil).Describe(descs)
	new(execution.Table).Figures().Describe(descs)
	close(descs)
	return <-done
}

// TestDashboardShowsWhatThereIs holds the dashboard against the code, both ways: it has no metric that nobody makes, and each of ours.
func TestDashboardShowsWhatThereIs(t *testing.T) {
	b, err := os.ReadFile("../../deploy/grafana/space.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	have, used := described(t), map[string]bool{}
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, name := range usedRE.FindAllString(target.Expr, -1) {
				name = strings.TrimSuffix(name, "_bucket")
				used[name] = true
				if !slices.Contains(have, name) {
					t.Errorf("panel %q: nobody makes %s", p.Title, name)
				}
			}
		}
	}
	for _, name := range have {
		if strings.HasPrefix(name, "space_") && !used[name] {
			t.Errorf("no panel shows %s", name)
		}
		if strings.HasPrefix(name, "space") && !nameRE.MatchString(name) {
			t.Errorf("%s isn't named space_SUBSYSTEM_WHAT", name)
		}
	}
}

var rowRE = regexp.MustCompile("(?m)^\\| `(space_[a-z0-9_]+)` \\|")

// TestDocumentNamesEachMetric keeps the table in docs/observability.md whole and true.
func TestDocumentNamesEachMetric(t *testing.T) {
	b, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range rowRE.FindAllSubmatch(b, -1) {
		documented = append(documented, string(row[1]))
	}
	have := slices.DeleteFunc(described(t), func(name string) bool { return !strings.HasPrefix(name, "space_") })
	for _, name := range have {
		if !slices.Contains(documented, name) {
			t.Errorf("docs/observability.md doesn't name %s", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(have, name) {
			t.Errorf("docs/observability.md names %s, which nobody makes", name)
		}
	}
}
