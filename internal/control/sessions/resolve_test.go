package sessions

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/access"
	"github.com/space-platform/space/internal/control/activity"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/token"
	"github.com/space-platform/space/internal/control/wake"
)

// changing is a store whose one target changes with each read; the last one stays.
type changing struct {
	Store
	targets []record.Target
	lose    bool // every fix is lost to another attach
	fixed   string
}

func (c *changing) AttachmentTarget(context.Context, record.TokenHash) (record.Target, error) {
	t := c.targets[0]
	if len(c.targets) > 1 {
		c.targets = c.targets[1:]
	}
	return t, nil
}

func (c *changing) FixSession(_ context.Context, _, execution string) (bool, error) {
	if c.lose {
		return false, nil
	}
	c.fixed = execution
	return true, nil
}

func target(observed space.ExecutionState, fixed string) record.Target {
	return record.Target{
		Session: record.Session{ID: "ses_1", Execution: fixed}, Sandbox: "sbx_1", Desired: record.DesiredRunning,
		Execution: record.Execution{Route: space.Route{Execution: "exe_1"}, Observed: observed},
	}
}

func resolve(t *testing.T, store *changing) (record.Target, time.Duration, error) {
	t.Helper()
	began := time.Now()
	got, err := New(store, nil, nil, activity.New(nil), new(wake.Bell), "").Resolve(t.Context(), token.Attachment.Random(), "ses_1")
	return got, time.Since(began), err
}

func TestResolveGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, after, err := resolve(t, &changing{targets: []record.Target{target(space.ExecutionPending, "")}})
		if space.CodeOf(err) != space.CodeTimeout || after != access.StartWait {
			t.Errorf("after %s: %v", after, err)
		}
	})
}

// TestResolveWithoutNews has a sandbox come up unannounced, right after the first look: the second look is at once.
func TestResolveWithoutNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &changing{targets: []record.Target{target(space.ExecutionPending, ""), target(space.ExecutionRunning, "")}}
		got, after, err := resolve(t, store)
		if err != nil || after != 0 || got.Session.Execution != "exe_1" || store.fixed != "exe_1" {
			t.Errorf("after %s: %+v, %v", after, got, err)
		}
		store = &changing{targets: []record.Target{target(space.ExecutionPending, ""), target(space.ExecutionPending, ""), target(space.ExecutionRunning, "")}}
		if _, after, err := resolve(t, store); err != nil || after != 2*time.Second {
			t.Errorf("after %s: %v", after, err)
		}
	})
}

// TestResolveLosesTheRace has another attach fix the session first: this one joins it.
func TestResolveLosesTheRace(t *testing.T) {
	store := &changing{lose: true, targets: []record.Target{target(space.ExecutionRunning, ""), target(space.ExecutionRunning, "exe_1")}}
	if got, _, err := resolve(t, store); err != nil || got.Session.Execution != "exe_1" {
		t.Errorf("%+v, %v", got, err)
	}
}
