package sandboxes

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// anySituation draws what a verb can be decided by.
func anySituation(t *rapid.T) record.Situation {
	states := space.ExecutionStates()
	box := record.Sandbox{
		ID: "sbx_1", Desired: rapid.SampledFrom(record.DesiredStates()).Draw(t, "desired"),
		Shape: record.Shape{VCPUs: 1, MemoryBytes: 1},
		Execution: record.Execution{
			Route:    space.Route{Sandbox: "sbx_1", Execution: "exe_2", Epoch: 2, Placement: space.Placement{Kind: space.PlacementNode, Node: "n"}},
			Observed: rapid.SampledFrom(states).Draw(t, "observed"),
		},
	}
	switch rapid.IntRange(0, 2).Draw(t, "made of") {
	case 1:
		box.Execution.DiskOf, box.Execution.Disk = "exe_1", rapid.SampledFrom(states).Draw(t, "disk")
	case 2:
		box.Execution.Snapshot, box.Execution.Replaces = "snp_1", "exe_1"
		if box.Execution.Observed == space.ExecutionFailed {
			box.Execution.Observed = space.ExecutionPending // it has left its place
		}
	}
	if box.Execution.Observed == space.ExecutionSuspended {
		box.Execution.HeldBy = "snp_2"
	}
	if rapid.Bool().Draw(t, "has a lifetime") {
		box.Lifetime = &record.Lifetime{
			Deadline: now.Add(time.Duration(rapid.IntRange(-2, 2).Draw(t, "minutes")) * time.Minute),
			OnExpiry: rapid.SampledFrom([]record.Expiry{record.ExpiryDelete, record.ExpiryStop}).Draw(t, "action"),
		}
	}
	box.Deleted = box.Desired == record.DesiredDeleted && box.Execution.Observed == space.ExecutionGone && rapid.Bool().Draw(t, "all gone")
	if box.Desired != record.DesiredDeleted && box.Execution.Observed == space.ExecutionGone {
		box.Execution.Observed = space.ExecutionLost // nothing goes unless it's told to
	}
	out := record.Situation{Sandbox: box, Epoch: 2, Room: func(record.Usage) (record.Room, error) {
		return record.Room{Facts: record.Facts{CPUs: 1, MemoryBytes: 1}}, nil
	}}
	if kind := rapid.SampledFrom(append(record.OperationKinds(), "")).Draw(t, "running"); kind != "" {
		out.Running = &record.Operation{ID: "op_running", Kind: kind}
	}
	return out
}

// TestVerbs holds every decision to the rules that must hold whatever else is so.
func TestVerbs(t *testing.T) {
	verbs := map[record.OperationKind]func(record.Situation) (record.Change, error){
		record.StopSandbox:    func(s record.Situation) (record.Change, error) { return stop(s, "op_new", DefaultGrace) },
		record.StartSandbox:   func(s record.Situation) (record.Change, error) { return start(s, "op_new", "exe_3", now) },
		record.DeleteSandbox:  func(s record.Situation) (record.Change, error) { return remove(s, "op_new") },
		record.PauseSandbox:   func(s record.Situation) (record.Change, error) { return pause(s, "op_new") },
		record.ResumeSandbox:  func(s record.Situation) (record.Change, error) { return resume(s, "op_new") },
		record.SuspendSandbox: func(s record.Situation) (record.Change, error) { return suspend(s, "op_new", "snp_new") },
		record.RestoreSandbox: func(s record.Situation) (record.Change, error) { return restore(s, "op_new", "exe_3", false, now) },
	}
	aims := map[record.OperationKind]space.State{
		record.StopSandbox: space.StateStopping, record.StartSandbox: space.StateStarting, record.DeleteSandbox: space.StateDeleting,
		record.PauseSandbox: space.StatePausing, record.ResumeSandbox: space.StateResuming, record.SuspendSandbox: space.StateSuspending, record.RestoreSandbox: space.StateRestoring,
	}
	reached := map[record.OperationKind][]space.State{
		record.StopSandbox: {space.StateStopped}, record.StartSandbox: {space.StateRunning}, record.DeleteSandbox: {space.StateDeleting, space.StateDeleted},
		record.PauseSandbox: {space.StatePaused}, record.ResumeSandbox: {space.StateRunning}, record.SuspendSandbox: {space.StateSuspended}, record.RestoreSandbox: {space.StateRunning},
	}
	rapid.Check(t, func(t *rapid.T) {
		s := anySituation(t)
		kind := rapid.SampledFrom(slices.Sorted(maps.Keys(verbs))).Draw(t, "verb")
		c, err := verbs[kind](s)
		state := State(s.Sandbox)
		going := state == space.StateDeleting || state == space.StateDeleted
		switch {
		case err != nil:
			if space.CodeOf(err) != space.CodeConflict || kind == record.DeleteSandbox {
				t.Fatalf("%s of one that is %s: %v", kind, state, err)
			}
			if s.Running != nil && !going && !strings.Contains(err.Error(), "op_running") {
				t.Fatalf("%s while %s runs doesn't name it: %v", kind, s.Running.Kind, err)
			}
		case c.Same != "":
			if s.Running == nil || c.Same != s.Running.ID || s.Running.Kind != kind && (kind != record.DeleteSandbox || !going) {
				t.Fatalf("%s got operation %s while %+v runs", kind, c.Same, s.Running)
			}
		case c.Done:
			if !slices.Contains(reached[kind], state) {
				t.Fatalf("%s of one that is %s has nothing to do", kind, state)
			}
		default:
			begins(t, s, kind, c, aims[kind])
		}
	})
}

// begins holds a change that begins to the table, and to one operation at a time.
func begins(t *rapid.T, s record.Situation, kind record.OperationKind, c record.Change, aim space.State) {
	state := State(s.Sandbox)
	if !state.CanBecome(aim) {
		t.Fatalf("%s begins in %s", kind, state)
	}
	if s.Running != nil && c.Supersede == nil {
		t.Fatalf("%s begins while %s runs", kind, s.Running.Kind)
	}
	next := s.Sandbox
	next.Desired = c.Desired
	if c.Execution.Route.Execution != "" {
		e, old := c.Execution, s.Sandbox.Execution
		if e.Route.Execution == old.Route.Execution || e.Route.Epoch != old.Route.Epoch+1 || e.Route.Sandbox != old.Route.Sandbox || e.Route.Placement != old.Route.Placement {
			t.Fatalf("after %v comes %v", old.Route, e.Route)
		}
		made := e.DiskOf
		if kind == record.RestoreSandbox {
			if e.Snapshot != old.HeldBy || e.Replaces != old.Route.Execution || e.DiskOf != "" {
				t.Fatalf("after %+v it's made of %+v", old, e)
			}
			made = old.Route.Execution
		}
		if made == "" || old.Observed == space.ExecutionFailed && made != old.DiskOf || old.Observed != space.ExecutionFailed && made != old.Route.Execution {
			t.Fatalf("after %+v it boots from the disk of %q", old, made)
		}
		next.Execution = e
		next.Execution.Observed = space.ExecutionPending
	}
	if (c.Desired == record.DesiredSuspended) != (c.Snapshot != nil) || c.Snapshot != nil && (c.Snapshot.Route != s.Sandbox.Execution.Route || c.Snapshot.Kind != record.SnapshotFull) {
		t.Fatalf("%s makes the snapshot %+v", kind, c.Snapshot)
	}
	if got := State(next); got != aim {
		t.Fatalf("%s of one that is %s makes it %s", kind, state, got)
	}
}

func TestExpiry(t *testing.T) {
	passed := record.Lifetime{Deadline: now.Add(-time.Second), OnExpiry: record.ExpiryStop}
	runs := record.Sandbox{Desired: record.DesiredRunning, Execution: record.Execution{Observed: space.ExecutionRunning}}
	for _, x := range []struct {
		name  string
		has   *record.Lifetime
		found record.Lifetime
		want  record.Change
		err   error
	}{
		{name: "stop", has: &passed, found: passed, want: record.Change{Kind: record.StopSandbox, Operation: "op_1", Desired: record.DesiredStopped, Grace: DefaultGrace, DropLifetime: true, Unasked: true}},
		{name: "removed meanwhile", found: passed, err: errNotDue},
		{name: "extended meanwhile", has: &record.Lifetime{Deadline: now.Add(time.Second), OnExpiry: record.ExpiryStop}, found: passed, err: errNotDue},
		{name: "shortened meanwhile", has: &record.Lifetime{Deadline: now.Add(-time.Hour), OnExpiry: record.ExpiryStop}, found: passed,
			want: record.Change{Kind: record.StopSandbox, Operation: "op_1", Desired: record.DesiredStopped, Grace: DefaultGrace, DropLifetime: true, Unasked: true}},
		{name: "another action meanwhile", has: &record.Lifetime{Deadline: passed.Deadline, OnExpiry: record.ExpiryDelete}, found: passed, err: errNotDue},
	} {
		box := runs
		box.Lifetime = x.has
		c, err := expire(record.Situation{Sandbox: box}, "op_1", x.found, now)
		if diff := cmp.Diff(x.want, c); diff != "" || !errors.Is(err, x.err) {
			t.Errorf("%s: %s, %v", x.name, diff, err)
		}
	}
}

// TestExpirySuspends holds that a suspend leaves the lifetime, since it may fail.
func TestExpirySuspends(t *testing.T) {
	passed := record.Lifetime{Deadline: now.Add(-time.Second), OnExpiry: record.ExpirySuspend}
	box := record.Sandbox{Desired: record.DesiredRunning, Execution: record.Execution{Observed: space.ExecutionRunning}, Lifetime: &passed}
	c, err := expire(record.Situation{Sandbox: box}, "op_1", passed, now)
	if err != nil || c.Kind != record.SuspendSandbox || c.DropLifetime {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestForksLifetime forks sandboxes with a lifetime: their children have it, too, unless it has passed and would end them at once.
func TestForksLifetime(t *testing.T) {
	own := record.Lifetime{Deadline: now.Add(time.Minute), OnExpiry: record.ExpiryDelete}
	coming, passed := record.Lifetime{Deadline: now.Add(time.Hour), OnExpiry: record.ExpirySuspend}, record.Lifetime{Deadline: now, OnExpiry: record.ExpirySuspend}
	for _, x := range []struct{ parent, asked, want *record.Lifetime }{
		{&coming, nil, &coming}, {&passed, nil, nil}, {nil, nil, nil}, {&passed, &own, &own},
	} {
		s := record.Situation{
			Sandbox: record.Sandbox{Desired: record.DesiredSuspended, Execution: record.Execution{Observed: space.ExecutionSuspended, HeldBy: "snp_1"}, Lifetime: x.parent},
			Room: func(record.Usage) (record.Room, error) {
				return record.Room{Facts: record.Facts{CPUs: 1, MemoryBytes: 1 << 40}}, nil
			},
		}
		c, err := fork(s, "op_1", "snp_2", []record.NewSandbox{{Lifetime: x.asked}}, now)
		if err != nil || len(c.Children) != 1 || c.Children[0].Lifetime != x.want {
			t.Errorf("of one until %+v: %+v, %v", x.parent, c.Children, err)
		}
	}
}

// TestStartDropsWhatHasPassed starts sandboxes whose deadline passed while they were stopped: they'd be stopped at once.
func TestStartDropsWhatHasPassed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySituation(t)
		c, err := start(s, "op_1", "exe_3", now)
		if err != nil || c.Kind == "" || c.Done {
			return
		}
		if l := s.Sandbox.Lifetime; c.DropLifetime != (l != nil && !l.Deadline.After(now)) {
			t.Fatalf("lifetime %+v: %+v", l, c)
		}
	})
}

func TestLifetime(t *testing.T) {
	soon, past, far := now.Add(time.Minute), now.Add(-time.Second), now.Add(MaxLifetime+time.Second)
	zero, minute, year := 0, 60, 31_536_001
	for _, x := range []struct {
		name  string
		l     Lifetime
		want  time.Time
		field string
	}{
		{name: "deadline", l: Lifetime{Deadline: &soon, OnExpiry: "delete"}, want: soon},
		{name: "seconds", l: Lifetime{Seconds: &minute, OnExpiry: "stop"}, want: soon},
		{name: "both", l: Lifetime{Deadline: &soon, Seconds: &minute, OnExpiry: "stop"}, field: "lifetime.seconds"},
		{name: "neither", l: Lifetime{OnExpiry: "stop"}, field: "lifetime.deadline"},
		{name: "no action", l: Lifetime{Seconds: &minute}, field: "lifetime.on_expiry"},
		{name: "unknown action", l: Lifetime{Seconds: &minute, OnExpiry: "pause"}, field: "lifetime.on_expiry"},
		{name: "past", l: Lifetime{Deadline: &past, OnExpiry: "stop"}, field: "lifetime.deadline"},
		{name: "now", l: Lifetime{Deadline: &now, OnExpiry: "stop"}, field: "lifetime.deadline"},
		{name: "too far", l: Lifetime{Deadline: &far, OnExpiry: "stop"}, field: "lifetime.deadline"},
		{name: "no seconds", l: Lifetime{Seconds: &zero, OnExpiry: "stop"}, field: "lifetime.seconds"},
		{name: "too many seconds", l: Lifetime{Seconds: &year, OnExpiry: "stop"}, field: "lifetime.seconds"},
	} {
		got, err := x.l.at(now)
		var e *space.Error
		if errors.As(err, &e); x.field != "" && (e == nil || e.Field != x.field) || x.field == "" && (err != nil || !got.Deadline.Equal(x.want)) {
			t.Errorf("%s: %+v, %v", x.name, got, err)
		}
	}
	if got, err := (*Lifetime)(nil).at(now); got != nil || err != nil {
		t.Errorf("none: %v, %v", got, err)
	}
}

// TestRelieveSuspendsOnlyWhatIsPaused has a sandbox do something else since it was found.
func TestRelieveSuspendsOnlyWhatIsPaused(t *testing.T) {
	box := record.Sandbox{Desired: record.DesiredPaused, Execution: record.Execution{Observed: space.ExecutionPaused}}
	if c, err := relieve(record.Situation{Sandbox: box}, "op_1"); err != nil || c.Kind != record.SuspendSandbox || !c.Unasked {
		t.Errorf("%+v, %v", c, err)
	}
	box.Desired, box.Execution.Observed = record.DesiredRunning, space.ExecutionRunning
	if c, err := relieve(record.Situation{Sandbox: box}, "op_1"); !errors.Is(err, errNotDue) {
		t.Errorf("one that runs: %+v, %v", c, err)
	}
}
