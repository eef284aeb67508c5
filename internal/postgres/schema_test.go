package postgres_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/pgtest"
	"github.com/space-platform/space/internal/postgres"
)

var quotedRE = regexp.MustCompile(`'([a-z_.]+)'::text`)

// TestConstraintsAreTheVocabulary compares the words that each column takes with the code's.
func TestConstraintsAreTheVocabulary(t *testing.T) {
	pool := pgtest.Pool(t)
	for _, x := range []struct {
		table, constraint string
		want              []string
	}{
		{"sandboxes", "sandboxes_desired_check", words(record.DesiredStates()...)},
		// Pending is the absence of a row.
		{"execution_status", "execution_status_state_check", words(slices.DeleteFunc(space.ExecutionStates(), func(s space.ExecutionState) bool { return s == space.ExecutionPending })...)},
		{"executions", "executions_placement_kind_check", words(space.PlacementNode, space.PlacementPod)},
		{"template_status", "template_status_state_check", words(record.TemplateBuilding, record.TemplateReady, record.TemplateFailed)},
		{"operations", "operations_kind_check", words(record.OperationKinds()...)},
		{"snapshots", "snapshots_kind_check", words(record.SnapshotDisk, record.SnapshotFull)},
		{"snapshots", "snapshots_purpose_check", words(record.PurposeAsked, record.PurposeSuspend, record.PurposeFork, record.PurposeRolling)},
		{"snapshot_status", "snapshot_status_state_check", words(record.SnapshotMaking, record.SnapshotReady, record.SnapshotFailed, record.SnapshotLost, record.SnapshotGone)},
		{"events", "events_type_check", words(record.EventTypes()...)},
		{"sandboxes", "sandboxes_on_expiry_check", words(record.ExpiryDelete, record.ExpiryStop, record.ExpirySuspend)},
		{"sandboxes", "sandboxes_idle_action_check", words(record.IdleSuspend, record.IdleDelete)},
		{"operations", "operations_status_check", words(record.OperationRunning, record.OperationSucceeded, record.OperationFailed)},
	} {
		var definition string
		err := pool.QueryRow(t.Context(), `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1 AND conrelid = $2::regclass`, x.constraint, x.table).Scan(&definition)
		if err != nil {
			t.Fatalf("%s: %v", x.constraint, err)
		}
		var got []string
		for _, m := range quotedRE.FindAllStringSubmatch(definition, -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		if diff := cmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s: %s", x.constraint, diff)
		}
	}
}

func words[T ~string](w ...T) []string {
	var out []string
	for _, s := range w {
		out = append(out, string(s))
	}
	slices.Sort(out)
	return out
}

// TestServerThatLosesCommitsIsRefused opens a database that acknowledges before it has written.
func TestServerThatLosesCommitsIsRefused(t *testing.T) {
	url := pgtest.URL(t)
	pool, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pool.Exec(t.Context(), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$")
	pool.Close()
	if err != nil {
		t.Fatal(err)
	}
	if pool, err := postgres.Open(t.Context(), url); err == nil {
		pool.Close()
		t.Error("a server with synchronous_commit off was taken")
	}
}
