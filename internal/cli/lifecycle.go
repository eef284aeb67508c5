package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// lifecycleFlags are what a sandbox does by itself.
type lifecycleFlags struct {
	autoWake             bool
	idle                 time.Duration
	onIdle               gen.IdleAction
	idleEgress           bool
	diskEvery, fullEvery time.Duration // 0: none
	budget               int
	keep                 []string
}

func (f *lifecycleFlags) add(c *cobra.Command) {
	s := c.Flags()
	s.BoolVar(&f.autoWake, "auto-wake", true, "wake it by itself when somebody needs it to run")
	spanVar(s, &f.idle, "idle", "after how long without activity --on-idle happens; 6h if not given", time.Minute, 365*day)
	choiceVar(c, &f.onIdle, "on-idle", "what happens when nothing was done with it for --idle; suspend if not given", []gen.IdleAction{"suspend", "delete", "none"})
	s.BoolVar(&f.idleEgress, "idle-egress", false, "let what it sends to the network count as activity")
	spanOrNoneVar(s, &f.fullEvery, "snapshot-every", "time between snapshots that it takes of itself, or none", time.Minute, 7*day)
	spanOrNoneVar(s, &f.diskEvery, "disk-snapshot-every", "time between snapshots of its disk alone, or none", time.Minute, 7*day)
	numberVar(s, &f.budget, "snapshot-budget-mb", "", "what those may take together, in MiB; unlimited if not given", 1, 1<<24)
	s.StringArrayVar(&f.keep, "snapshot-keep", nil, "EVERY:FOR, which of those are kept: one for each 1h of the last 24h with 1h:24h, all of the last hour with 0:1h; may be repeated")
}

// The flags of each part of a lifecycle.
var (
	idleFlags    = []string{"idle", "on-idle", "idle-egress"}
	rollingFlags = []string{"snapshot-every", "disk-snapshot-every", "snapshot-budget-mb", "snapshot-keep"}
)

// change is what the flags make of a sandbox's lifecycle. The API replaces the parts of one as a whole, so what isn't given is what it is now.
func (f *lifecycleFlags) change(ctx context.Context, c *cobra.Command, cl *client.Client, id string) (*gen.Lifecycle, error) {
	var now gen.Lifecycle
	if slices.ContainsFunc(slices.Concat(idleFlags, rollingFlags), c.Flags().Changed) {
		s, err := cl.GetSandbox(ctx, id)
		if err != nil {
			return nil, err
		}
		if s.Lifecycle != nil {
			now = *s.Lifecycle
		}
	}
	return f.lifecycle(c, now)
}

// lifecycle is what the flags make of a lifecycle; nil if they say nothing of it.
func (f *lifecycleFlags) lifecycle(c *cobra.Command, now gen.Lifecycle) (out *gen.Lifecycle, err error) {
	var l gen.Lifecycle
	if c.Flags().Changed("auto-wake") {
		l.AutoWake = &f.autoWake
	}
	if slices.ContainsFunc(idleFlags, c.Flags().Changed) {
		l.Idle = f.idleness(c, now.Idle)
	}
	if slices.ContainsFunc(rollingFlags, c.Flags().Changed) {
		if l.Rolling, err = f.rolling(c, now.Rolling); err != nil {
			return nil, err
		}
	}
	if l == (gen.Lifecycle{}) {
		return nil, nil
	}
	return &l, nil
}

func (f *lifecycleFlags) idleness(c *cobra.Command, now *gen.Idle) *gen.Idle {
	given := c.Flags().Changed
	out := gen.Idle{Action: "suspend"}
	if now != nil {
		out = *now
	}
	switch {
	case given("on-idle"):
		out.Action = f.onIdle
	case out.Action == "none" && given("idle"):
		out.Action = "suspend"
	}
	if out.Action == "none" {
		out.AfterSeconds = nil
	}
	if given("idle") {
		out.AfterSeconds = wholeSeconds(f.idle)
	}
	if given("idle-egress") {
		out.Egress = &f.idleEgress
	}
	return &out
}

func (f *lifecycleFlags) rolling(c *cobra.Command, now *gen.Rolling) (*gen.Rolling, error) {
	given := c.Flags().Changed
	var out gen.Rolling
	if now != nil {
		out = *now
	}
	if given("snapshot-every") {
		out.FullEverySeconds = wholeSeconds(f.fullEvery)
	}
	if given("disk-snapshot-every") {
		out.DiskEverySeconds = wholeSeconds(f.diskEvery)
	}
	if out.FullEverySeconds == nil && out.DiskEverySeconds == nil {
		for _, of := range []string{"snapshot-budget-mb", "snapshot-keep"} {
			if given(of) {
				return nil, wrongly("add --snapshot-every, for example --snapshot-every 10m", "--%s is of snapshots that it takes of itself, and it takes none", of)
			}
		}
		return &gen.Rolling{}, nil
	}
	if given("snapshot-budget-mb") {
		budget := int64(f.budget)
		out.BudgetMb = &budget
	}
	if given("snapshot-keep") {
		keep, err := tiers(f.keep)
		if err != nil {
			return nil, err
		}
		out.Keep = &keep
	}
	return &out, nil
}

// tiers reads EVERY:FOR.
func tiers(list []string) ([]gen.Tier, error) {
	var out []gen.Tier
	for _, t := range list {
		every, whole, ok := strings.Cut(t, ":")
		e, err := time.ParseDuration(every)
		w, werr := time.ParseDuration(whole)
		if !ok || err != nil || werr != nil {
			return nil, wrongly("write EVERY:FOR, for example 1h:24h", "--snapshot-keep %q isn't two times", t)
		}
		out = append(out, gen.Tier{EverySeconds: int(e / time.Second), ForSeconds: int(w / time.Second)})
	}
	return out, nil
}

// wholeSeconds is a time that may not be given.
func wholeSeconds(d time.Duration) *int {
	if d == 0 {
		return nil
	}
	n := int(d / time.Second)
	return &n
}
