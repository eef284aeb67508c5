//go:build e2e

package e2e

import (
	"context"
	"regexp"
	"strconv"
	"testing"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// maxCommits is how many database commits may lie between a create request and its answer that the sandbox runs, PostgreSQL's and those of the node's
// records together, even if some of them weren't waited for.
const maxCommits = 3

// commitTries is how many creations may be looked at. What the platform commits for its own sake (when it last heard of a node, what was done with other
// sandboxes) falls into one as likely as it takes long, and where guests are emulated it takes seconds.
const commitTries = 12

// TestFewCommitsUntilRunning counts what is committed while a sandbox is created: with a machine that waits, where there is a pool, and with one that is
// made. A creation's own commits are never more than the fewest that were counted.
func TestFewCommitsUntilRunning(t *testing.T) {
	_ = buildBase() // which reports what it prints all the time; a test that needs the template says what is wrong
	larger := 192
	for name, in := range map[string]client.SandboxCreate{"of the template's size": {Template: "mini"}, "of another size": {Template: "mini", MemoryMb: &larger}} {
		t.Run(name, func(t *testing.T) {
			var seen []map[string]int
			for range commitTries {
				got := commitsOf(t, in)
				seen = append(seen, got)
				if n := sum(got); n < 2 {
					t.Fatalf("%v, want the intent and the outcome at least", got)
				} else if n <= maxCommits {
					return
				}
			}
			t.Errorf("want %d commits at most, counted\n%v", maxCommits, seen)
		})
	}
}

// commitsOf creates a sandbox, removes it, and returns what was committed between the request and the answer.
func commitsOf(t *testing.T, in client.SandboxCreate) map[string]int {
	t.Helper()
	awaitSlots(t)
	ctx, cancel := context.WithTimeout(t.Context(), callDeadline)
	defer cancel()
	before := commits(t)
	s, err := platform.client.CreateSandbox(ctx, in)
	after := commits(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := platform.client.DeleteSandbox(ctx, s.Id); err != nil {
		t.Error(err)
	}
	for doing, n := range before {
		if after[doing] -= n; after[doing] == 0 {
			delete(after, doing)
		}
	}
	return after
}

// commits reads how many there have been, by what they do.
func commits(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{"write the node's records": metric(t, instance.Manager, "space_node_record_commits_total")}
	for _, m := range regexp.MustCompile(`(?m)^space_db_commits_total\{doing="(.*)"\} (\d+)$`).FindAllStringSubmatch(metrics(t, instance.API), -1) {
		out[m[1]], _ = strconv.Atoi(m[2]) // the expression takes digits only
	}
	if len(out) < 2 || out["write the node's records"] == 0 {
		t.Fatalf("%v have been committed: the test looks in the wrong place", out)
	}
	return out
}

func sum(commits map[string]int) (n int) {
	for _, c := range commits {
		n += c
	}
	return n
}
