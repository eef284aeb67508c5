//go:build e2e

package e2e

import (
	"context"
	"math"
	"testing"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// maxCommits is how many database commits may lie between a create request and its answer that the sandbox runs, PostgreSQL's and those of the node's
// records together, even if some of them weren't waited for.
const maxCommits = 3

// TestFewCommitsUntilRunning counts what is committed while a sandbox is created: with a machine that waits, where there is a pool, and with one that is
// made. What the platform commits for its own sake may fall into one of the creations, and not into all.
func TestFewCommitsUntilRunning(t *testing.T) {
	commits := func() int {
		db, records := metric(t, instance.API, "space_db_commits_total"), metric(t, instance.Manager, "space_node_record_commits_total")
		if db == 0 || records == 0 {
			t.Fatalf("%d commits in the database, %d of records: the test looks in the wrong place", db, records)
		}
		return db + records
	}
	larger := 192
	for name, in := range map[string]client.SandboxCreate{"of the template's size": {Template: "mini"}, "of another size": {Template: "mini", MemoryMb: &larger}} {
		t.Run(name, func(t *testing.T) {
			least := math.MaxInt
			for range 4 {
				awaitSlots(t)
				ctx, cancel := context.WithTimeout(t.Context(), callDeadline)
				defer cancel()
				before := commits()
				s, err := platform.client.CreateSandbox(ctx, in)
				after := commits()
				if err != nil {
					t.Fatal(err)
				}
				if err := platform.client.DeleteSandbox(ctx, s.Id); err != nil {
					t.Error(err)
				}
				least = min(least, after-before)
			}
			if least > maxCommits || least < 2 {
				t.Errorf("%d commits, want the intent and the outcome, and %d at most", least, maxCommits)
			}
		})
	}
}
