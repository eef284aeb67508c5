package sandboxes

import (
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/retention"
)

const (
	// DefaultIdle is after how long without activity a sandbox is suspended that says nothing of it.
	DefaultIdle = 6 * time.Hour
	// minIdle and maxIdle bound what a sandbox may say.
	minIdle, maxIdle = time.Minute, 365 * 24 * time.Hour
	// minRolling and maxRolling bound the interval of snapshots.
	minRolling, maxRolling = time.Minute, 7 * 24 * time.Hour
	// maxTiers bounds the tiers of what is kept of them, and maxKept the longest of them.
	maxTiers = 8
	maxKept  = 365 * 24 * time.Hour
	// maxBudgetMiB bounds the budget of their bytes.
	maxBudgetMiB = 1 << 24
)

// Lifecycle is what a client says of what a sandbox does by itself. What is nil is the platform's default at a creation, and stays at an update.
type Lifecycle struct {
	AutoWake *bool
	Idle     *Idle
	Rolling  *Rolling // of zero intervals: it takes no snapshots of itself
}

// Idle is how idleness ends.
type Idle struct {
	Action       string // suspend, delete or none
	AfterSeconds *int   // nil: DefaultIdle
}

// Rolling is how a sandbox takes snapshots of itself.
type Rolling struct {
	DiskEverySeconds *int
	FullEverySeconds *int
	Keep             []Tier // empty: the default ones
	BudgetMiB        *int64
}

// Tier keeps one snapshot for each interval of the last time; all if the interval is 0.
type Tier struct{ EverySeconds, ForSeconds int }

// defaultLifecycle is that of a sandbox about which nothing is said.
func defaultLifecycle() record.Lifecycle {
	return record.Lifecycle{AutoWake: true, Idle: &record.Idle{After: DefaultIdle, Action: record.IdleSuspend}}
}

// over checks what is asked for, and returns how it changes what there is; nil if nothing is asked for. The error names the field and its limit.
func (l *Lifecycle) over() (func(record.Lifecycle) record.Lifecycle, error) {
	if l == nil {
		return nil, nil
	}
	idle, err := l.Idle.record()
	if err != nil {
		return nil, err
	}
	rolling, err := l.Rolling.record()
	if err != nil {
		return nil, err
	}
	return func(now record.Lifecycle) record.Lifecycle {
		if l.AutoWake != nil {
			now.AutoWake = *l.AutoWake
		}
		if l.Idle != nil {
			now.Idle = idle
		}
		if l.Rolling != nil {
			now.Rolling = rolling
		}
		return now
	}, nil
}

// at is the lifecycle of a new sandbox.
func (l *Lifecycle) at() (record.Lifecycle, error) {
	change, err := l.over()
	if err != nil || change == nil {
		return defaultLifecycle(), err
	}
	return change(defaultLifecycle()), nil
}

func (i *Idle) record() (*record.Idle, error) {
	if i == nil {
		return nil, nil
	}
	out := &record.Idle{After: DefaultIdle, Action: record.IdleAction(i.Action)}
	switch i.Action {
	case "none":
		if i.AfterSeconds != nil {
			return nil, space.FieldErrorf("lifecycle.idle.after_seconds", "is given with the action none, which ends nothing")
		}
		return nil, nil
	case string(record.IdleSuspend), string(record.IdleDelete):
	default:
		return nil, space.FieldErrorf("lifecycle.idle.action", "is %q: it must be suspend, delete or none", space.Clip(i.Action))
	}
	return out, interval("lifecycle.idle.after_seconds", i.AfterSeconds, minIdle, maxIdle, &out.After)
}

func (r *Rolling) record() (*record.Rolling, error) {
	if r == nil || r.DiskEverySeconds == nil && r.FullEverySeconds == nil {
		if r != nil && (len(r.Keep) > 0 || r.BudgetMiB != nil) {
			return nil, space.FieldErrorf("lifecycle.rolling", "has neither disk_every_seconds nor full_every_seconds: there's nothing to keep")
		}
		return nil, nil
	}
	out := &record.Rolling{Keep: retention.DefaultTiers()}
	if err := interval("lifecycle.rolling.disk_every_seconds", r.DiskEverySeconds, minRolling, maxRolling, &out.DiskEvery); err != nil {
		return nil, err
	}
	if err := interval("lifecycle.rolling.full_every_seconds", r.FullEverySeconds, minRolling, maxRolling, &out.FullEvery); err != nil {
		return nil, err
	}
	if b := r.BudgetMiB; b != nil {
		if *b < 1 || *b > maxBudgetMiB {
			return nil, space.FieldErrorf("lifecycle.rolling.budget_mb", "is %d MiB: it must be 1 to %d MiB", *b, maxBudgetMiB)
		}
		out.BudgetBytes = uint64(*b) * record.MiB
	}
	return out, r.tiers(out)
}

func (r *Rolling) tiers(out *record.Rolling) error {
	if len(r.Keep) == 0 {
		return nil
	}
	if len(r.Keep) > maxTiers {
		return space.FieldErrorf("lifecycle.rolling.keep", "has %d tiers: at most %d are allowed", len(r.Keep), maxTiers)
	}
	out.Keep = nil
	for _, t := range r.Keep {
		// Seconds are compared, not durations: so many seconds that they overflow one are refused, too.
		const least, most = int(minRolling / time.Second), int(maxKept / time.Second)
		if t.EverySeconds < 0 || t.EverySeconds > most || t.ForSeconds < least || t.ForSeconds > most {
			return space.FieldErrorf("lifecycle.rolling.keep", "has a tier of every %d s for %d s: at most %.0f days are allowed, for at least a minute", t.EverySeconds, t.ForSeconds, maxKept.Hours()/24)
		}
		out.Keep = append(out.Keep, record.Tier{Every: time.Duration(t.EverySeconds) * time.Second, For: time.Duration(t.ForSeconds) * time.Second})
	}
	return nil
}

// interval reads a number of seconds within limits; nil leaves what there is.
func interval(field string, seconds *int, least, most time.Duration, to *time.Duration) error {
	if seconds == nil {
		return nil
	}
	if err := within(field, seconds, int(least/time.Second), int(most/time.Second), " s"); err != nil {
		return err
	}
	*to = time.Duration(*seconds) * time.Second
	return nil
}
