package manager

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/telemetry"
)

var (
	noon     = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	allWords = []space.ExecutionState{space.ExecutionPending, space.ExecutionRunning, space.ExecutionFailed, space.ExecutionLost, space.ExecutionStopped}
)

func drawRecord(t *rapid.T, route space.Route) record {
	r := record{Route: route, Wanted: rapid.SampledFrom([]wanted{wantRunning, wantStopped, wantRemoved}).Draw(t, "wanted"),
		State: rapid.SampledFrom(allWords).Draw(t, "state"), Since: noon}
	if rapid.Bool().Draw(t, "ordered") {
		r.Order = "an order"
	}
	r.Removed = r.Wanted == wantRemoved && rapid.Bool().Draw(t, "removed")
	return r
}

func drawSeen(t *rapid.T, route space.Route) *seen {
	if rapid.Bool().Draw(t, "absent") {
		return nil
	}
	return &seen{Route: route, State: rapid.SampledFrom(append(allWords, space.ExecutionGone, "unheard-of")).Draw(t, "seen")}
}

// TestNothingLeadsBackToPending: an execution is given to EnsureExecution only while it's pending, so it must never become that again.
func TestNothingLeadsBackToPending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t, newRoute())
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			before := r
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				r = observe(r, drawSeen(t, r.Route), noon)
			case 1:
				if next, err := orderRun(&r, &r, record{Route: r.Route, Order: "an order"}, noon); err == nil {
					r = next
				}
			case 2:
				r, _ = orderRemove(&r, r.Route, telemetry.Cause{}, noon)
			case 3:
				r = fail(r, space.Errorf(space.CodeGuest, "no"), noon)
			case 4:
				if next, err := orderStop(&r, r.Route, time.Second, telemetry.Cause{}); err == nil {
					r = next
				}
			}
			switch {
			case before.State != space.ExecutionPending && r.State == space.ExecutionPending:
				t.Fatalf("%+v became pending", before)
			case before.State == space.ExecutionStopped && r.State == space.ExecutionRunning:
				t.Fatalf("%+v runs again", before)
			case before.Wanted == wantStopped && r.Wanted == wantRunning:
				t.Fatalf("%+v isn't to be stopped any more", before)
			case final(before.State) && r.State != before.State:
				t.Fatalf("%+v became %s", before, r.State)
			case before.Wanted == wantRemoved && (r.Wanted != wantRemoved || decide(r) == actEnsure):
				t.Fatalf("%+v came back as %+v", before, r)
			}
		}
	})
}

func TestObservingTwiceIsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t, newRoute())
		s := drawSeen(t, r.Route)
		once := observe(r, s, noon)
		if twice := observe(once, s, noon.Add(time.Hour)); !twice.equal(once) {
			t.Fatalf("%+v, then %+v", once, twice)
		}
	})
}

func TestTombstoneGoesWhenAcknowledged(t *testing.T) {
	for _, tt := range []struct {
		name                                   string
		removed, reported, named, listed, goes bool
	}{
		{name: "acknowledged", removed: true, reported: true, goes: true},
		{name: "still being removed", reported: true},
		{name: "the report wasn't complete", removed: true},
		{name: "the answer speaks of it", removed: true, reported: true, named: true},
		{name: "the host shows it", removed: true, reported: true, listed: true},
	} {
		if got := acknowledged(record{Removed: tt.removed}, tt.reported, tt.named, tt.listed); got != tt.goes {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestOrdersOfEarlierEpochsAreRefused(t *testing.T) {
	at := func(epoch uint64) space.Route {
		r := newRoute()
		r.Sandbox, r.Epoch = "sbx_aaaaaaaaaaaaaaaaaaaaaaaaaa", epoch
		return r
	}
	newest := &record{Route: at(3)}
	for epoch, want := range map[uint64]space.Code{2: space.CodeRouteStale, 3: space.CodeRouteStale, 4: ""} {
		if _, err := orderRun(nil, newest, record{Route: at(epoch)}, noon); space.CodeOf(err) != want {
			t.Errorf("epoch %d: %v", epoch, err)
		}
	}
}

func TestAdmission(t *testing.T) {
	route := newRoute()
	for _, tt := range []struct {
		r    record
		want space.Code
	}{
		{record{Wanted: wantRunning, State: space.ExecutionRunning}, ""},
		{record{Wanted: wantRunning, State: space.ExecutionPending}, space.CodeUnavailable},
		{record{Wanted: wantRunning, State: space.ExecutionLost}, space.CodeExecutionLost},
		{record{Wanted: wantRunning, State: space.ExecutionFailed, Err: &problem{Code: space.CodeGuest, Message: "no"}}, space.CodeExecutionLost},
		{record{Wanted: wantRemoved, State: space.ExecutionRunning}, space.CodeExecutionLost},
		{record{Wanted: wantStopped, State: space.ExecutionRunning}, ""},
		{record{Wanted: wantStopped, State: space.ExecutionStopped}, space.CodeConflict},
	} {
		tt.r.Route = route
		if got := space.CodeOf(admit(route, &tt.r)); got != tt.want {
			t.Errorf("%s, wanted %s: %q, want %q", tt.r.State, tt.r.Wanted, got, tt.want)
		}
	}
	for state, want := range map[space.ExecutionState]space.Code{
		space.ExecutionPending: space.CodeUnavailable, space.ExecutionRunning: "", space.ExecutionStopped: "", space.ExecutionLost: "",
		space.ExecutionFailed: space.CodeExecutionLost,
	} {
		if got := space.CodeOf(admitAttach(route, &record{Route: route, State: state})); got != want {
			t.Errorf("an attach, %s: %q, want %q", state, got, want)
		}
		if got := space.CodeOf(admitAttach(route, &record{Route: route, State: state, Wanted: wantRemoved})); got != space.CodeExecutionLost {
			t.Errorf("an attach, %s and to be removed: %q", state, got)
		}
	}
	if got := space.CodeOf(admit(route, nil)); got != space.CodeRouteStale {
		t.Errorf("no record: %q", got)
	}
}

func TestStop(t *testing.T) {
	route := newRoute()
	for _, tt := range []struct {
		name  string
		order message
		state space.ExecutionState
		want  action
	}{
		{"running", "an order", space.ExecutionRunning, actStop},
		{"not made yet: it runs first", "an order", space.ExecutionPending, actEnsure},
		{"found, and not seen to run yet", "", space.ExecutionPending, actNone},
		{"stopped", "an order", space.ExecutionStopped, actNone},
		{"lost", "an order", space.ExecutionLost, actNone},
		{"failed", "an order", space.ExecutionFailed, actNone},
	} {
		r, err := orderStop(&record{Route: route, Order: tt.order, Wanted: wantRunning, State: tt.state}, route, time.Second, telemetry.Cause{})
		if got := decide(r); err != nil || got != tt.want || r.State != tt.state {
			t.Errorf("%s: %v, %v: action %d, want %d", tt.name, r, err, got, tt.want)
		}
	}
	other := newRoute()
	for name, c := range map[string]struct {
		old  *record
		want space.Code
	}{
		"unknown":            {nil, space.CodeNotFound},
		"another sandbox's":  {&record{Route: other}, space.CodeRouteDenied},
		"ordered to be gone": {&record{Route: route, Wanted: wantRemoved}, space.CodeConflict},
	} {
		if _, err := orderStop(c.old, route, time.Second, telemetry.Cause{}); space.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestDiskThatVanishes(t *testing.T) {
	r := observe(record{Route: newRoute(), Wanted: wantStopped, State: space.ExecutionStopped}, nil, noon)
	if r.State != space.ExecutionLost || r.Err == nil {
		t.Errorf("%+v", r)
	}
}
