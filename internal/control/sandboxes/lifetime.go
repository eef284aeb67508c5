package sandboxes

import (
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// MaxLifetime is how far in the future a deadline may be.
const MaxLifetime = 365 * 24 * time.Hour

// Lifetime is how long a client wants a sandbox to live. Exactly one of Deadline and Seconds is given.
type Lifetime struct {
	Deadline *time.Time
	Seconds  *int // from now
	OnExpiry string
}

// at checks a lifetime that is asked for at a time and returns the one that is kept; nil for nil. The error names the field and its limit.
func (l *Lifetime) at(now time.Time) (*record.Lifetime, error) {
	if l == nil {
		return nil, nil
	}
	out := record.Lifetime{OnExpiry: record.Expiry(l.OnExpiry)}
	if out.OnExpiry == "" {
		return nil, space.FieldErrorf("lifetime.on_expiry", "is missing: delete, stop or suspend, what is done when the time is over, is needed")
	}
	if out.OnExpiry != record.ExpiryDelete && out.OnExpiry != record.ExpiryStop && out.OnExpiry != record.ExpirySuspend {
		return nil, space.FieldErrorf("lifetime.on_expiry", "is %q: it must be delete, stop or suspend", space.Clip(l.OnExpiry))
	}
	switch {
	case l.Deadline != nil && l.Seconds != nil:
		return nil, space.FieldErrorf("lifetime.seconds", "deadline and seconds are both given: exactly one is allowed")
	case l.Seconds != nil:
		if err := within("lifetime.seconds", l.Seconds, 1, int(MaxLifetime/time.Second), ""); err != nil {
			return nil, err
		}
		out.Deadline = now.Add(time.Duration(*l.Seconds) * time.Second)
	case l.Deadline == nil:
		return nil, space.FieldErrorf("lifetime.deadline", "neither deadline nor seconds is given: exactly one is needed")
	case !l.Deadline.After(now):
		return nil, space.FieldErrorf("lifetime.deadline", "is %s, which has passed: it must be in the future", l.Deadline.UTC().Format(time.RFC3339))
	case l.Deadline.After(now.Add(MaxLifetime)):
		return nil, space.FieldErrorf("lifetime.deadline", "is more than %d days away, which is the limit", int(MaxLifetime.Hours()/24))
	default:
		out.Deadline = *l.Deadline
	}
	return &out, nil
}
