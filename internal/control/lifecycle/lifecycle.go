// Package lifecycle reads what a client says of what sandboxes do by themselves: of one, or of all that are made of a template.
package lifecycle

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

// Config is what a client says. What is nil is the default at a creation, and stays at an update.
type Config struct {
	AutoWake *bool
	Idle     *Idle
	Rolling  *Rolling // of zero intervals: it takes no snapshots of itself
}

// Idle is how idleness ends.
type Idle struct {
	Action       string // suspend, delete or none
	AfterSeconds *int   // nil: DefaultIdle
	Egress       bool   // bytes that it sends are activity
}

// Rolling is how a sandbox takes snapshots of itself.
type Rolling struct {
	DiskEverySeconds *int
	FullEverySeconds *int
	Keep             []Tier // nil: the default ones; it's never empty
	BudgetMiB        *int64
}

// Tier keeps one snapshot for each interval of the last time; all if the interval is 0.
type Tier struct{ EverySeconds, ForSeconds int }

// Default is that of a sandbox about which nothing is said, nor about its template.
func Default() record.Lifecycle {
	return record.Lifecycle{AutoWake: true, Idle: &record.Idle{After: DefaultIdle, Action: record.IdleSuspend}}
}

// Change checks what is asked for, and returns how it changes what there is; nil if nothing is asked for. The error names the field and its limit.
func (c *Config) Change() (func(record.Lifecycle) record.Lifecycle, error) {
	if c == nil {
		return nil, nil
	}
	idle, err := c.Idle.record()
	if err != nil {
		return nil, err
	}
	rolling, err := c.Rolling.record()
	if err != nil {
		return nil, err
	}
	return func(now record.Lifecycle) record.Lifecycle {
		if c.AutoWake != nil {
			now.AutoWake = *c.AutoWake
		}
		if c.Idle != nil {
			now.Idle = idle
		}
		if c.Rolling != nil {
			now.Rolling = rolling
		}
		return now
	}, nil
}

// Over is what is asked for above what a template says; nil: it says nothing.
func (c *Config) Over(template *record.Lifecycle) (record.Lifecycle, error) {
	base := Default()
	if template != nil {
		base = *template
	}
	change, err := c.Change()
	if err != nil || change == nil {
		return base, err
	}
	return change(base), nil
}

func (i *Idle) record() (*record.Idle, error) {
	if i == nil {
		return nil, nil
	}
	out := &record.Idle{After: DefaultIdle, Action: record.IdleAction(i.Action), Egress: i.Egress}
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
		if r != nil && (r.Keep != nil || r.BudgetMiB != nil) {
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
	switch {
	case r.Keep == nil:
		return nil
	case len(r.Keep) == 0: // who means the default and who means none would both be surprised by the other
		return space.FieldErrorf("lifecycle.rolling.keep", "is empty: leave it out for the default tiers, or say what is kept")
	case len(r.Keep) > maxTiers:
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
	if least, most := int(least/time.Second), int(most/time.Second); *seconds < least || *seconds > most {
		return space.FieldErrorf(field, "is %d s: it must be %d to %d s", *seconds, least, most)
	}
	*to = time.Duration(*seconds) * time.Second
	return nil
}
