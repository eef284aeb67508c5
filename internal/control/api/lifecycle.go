package api

import (
	"time"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/lifecycle"
	"github.com/space-platform/space/internal/control/record"
)

func readLifecycle(l *gen.Lifecycle) *lifecycle.Config {
	if l == nil {
		return nil
	}
	out := &lifecycle.Config{AutoWake: l.AutoWake}
	if i := l.Idle; i != nil {
		out.Idle = &lifecycle.Idle{Action: string(i.Action), AfterSeconds: i.AfterSeconds, Egress: given(i.Egress)}
	}
	if r := l.Rolling; r != nil {
		out.Rolling = &lifecycle.Rolling{DiskEverySeconds: r.DiskEverySeconds, FullEverySeconds: r.FullEverySeconds, BudgetMiB: r.BudgetMb}
		if r.Keep != nil {
			out.Rolling.Keep = make([]lifecycle.Tier, 0, len(*r.Keep))
			for _, t := range *r.Keep {
				out.Rolling.Keep = append(out.Rolling.Keep, lifecycle.Tier(t))
			}
		}
	}
	return out
}

func renderLifecycle(l record.Lifecycle) *gen.Lifecycle {
	out := &gen.Lifecycle{AutoWake: &l.AutoWake, Idle: &gen.Idle{Action: gen.IdleActionNone}}
	if l.Idle != nil {
		out.Idle = &gen.Idle{Action: gen.IdleAction(l.Idle.Action), AfterSeconds: wholeSeconds(l.Idle.After), Egress: notFalse(l.Idle.Egress)}
	}
	if r := l.Rolling; r != nil {
		out.Rolling = &gen.Rolling{DiskEverySeconds: wholeSeconds(r.DiskEvery), FullEverySeconds: wholeSeconds(r.FullEvery)}
		var keep []gen.Tier
		for _, t := range r.Keep {
			keep = append(keep, gen.Tier{EverySeconds: int(t.Every / time.Second), ForSeconds: int(t.For / time.Second)})
		}
		out.Rolling.Keep = &keep
		if r.BudgetBytes > 0 {
			budget := int64(r.BudgetBytes / record.MiB)
			out.Rolling.BudgetMb = &budget
		}
	}
	return out
}

// wholeSeconds is a time that may be none.
func wholeSeconds(d time.Duration) *int {
	if d == 0 {
		return nil
	}
	n := int(d / time.Second)
	return &n
}
