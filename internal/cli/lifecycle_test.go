package cli

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
)

// documentOf is a document of the API.
func documentOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestWhatASandboxDoesByItself reads the flags that say it.
func TestWhatASandboxDoesByItself(t *testing.T) {
	seconds := func(n int) *int { return &n }
	budget, no, yes := int64(500), false, true
	now := gen.Lifecycle{
		Idle:    &gen.Idle{Action: "suspend", AfterSeconds: seconds(3600), Egress: &yes},
		Rolling: &gen.Rolling{FullEverySeconds: seconds(120), DiskEverySeconds: seconds(60), BudgetMb: &budget, Keep: &[]gen.Tier{{EverySeconds: 0, ForSeconds: 300}}},
	}
	for _, x := range []struct {
		now   gen.Lifecycle
		args  []string
		want  *gen.Lifecycle
		wrong bool
	}{
		{args: nil},
		{args: []string{"--auto-wake=false"}, want: &gen.Lifecycle{AutoWake: &no}},
		{args: []string{"--idle", "2h"}, want: &gen.Lifecycle{Idle: &gen.Idle{Action: "suspend", AfterSeconds: seconds(7200)}}},
		{args: []string{"--idle-egress"}, want: &gen.Lifecycle{Idle: &gen.Idle{Action: "suspend", Egress: &yes}}},
		{args: []string{"--on-idle", "none"}, want: &gen.Lifecycle{Idle: &gen.Idle{Action: "none"}}},
		{
			args: []string{"--snapshot-every", "10m", "--disk-snapshot-every", "1m", "--snapshot-budget-mb", "500", "--snapshot-keep", "0:1h", "--snapshot-keep", "1h:24h"},
			want: &gen.Lifecycle{Rolling: &gen.Rolling{
				FullEverySeconds: seconds(600), DiskEverySeconds: seconds(60), BudgetMb: &budget,
				Keep: &[]gen.Tier{{EverySeconds: 0, ForSeconds: 3600}, {EverySeconds: 3600, ForSeconds: 86400}},
			}},
		},
		{args: []string{"--snapshot-budget-mb", "500"}, wrong: true},
		{args: []string{"--snapshot-keep", "1h:24h"}, wrong: true},
		{args: []string{"--snapshot-every", "10m", "--snapshot-keep", "1h"}, wrong: true},
		{args: []string{"--snapshot-every", "10m", "--snapshot-keep", "1h:day"}, wrong: true},
		{now: now, args: []string{"--auto-wake=false"}, want: &gen.Lifecycle{AutoWake: &no}},
		{now: now, args: []string{"--on-idle", "delete"}, want: &gen.Lifecycle{Idle: &gen.Idle{Action: "delete", AfterSeconds: seconds(3600), Egress: &yes}}},
		{now: now, args: []string{"--on-idle", "none"}, want: &gen.Lifecycle{Idle: &gen.Idle{Action: "none", Egress: &yes}}},
		{now: now, args: []string{"--idle", "2h"}, want: &gen.Lifecycle{Idle: &gen.Idle{Action: "suspend", AfterSeconds: seconds(7200), Egress: &yes}}},
		{
			now: gen.Lifecycle{Idle: &gen.Idle{Action: "none"}}, args: []string{"--idle", "2h"},
			want: &gen.Lifecycle{Idle: &gen.Idle{Action: "suspend", AfterSeconds: seconds(7200)}},
		},
		{now: now, args: []string{"--snapshot-every", "5m"}, want: &gen.Lifecycle{Rolling: &gen.Rolling{
			FullEverySeconds: seconds(300), DiskEverySeconds: seconds(60), BudgetMb: &budget, Keep: now.Rolling.Keep,
		}}},
		{now: now, args: []string{"--snapshot-every", "none"}, want: &gen.Lifecycle{Rolling: &gen.Rolling{
			DiskEverySeconds: seconds(60), BudgetMb: &budget, Keep: now.Rolling.Keep,
		}}},
		{now: now, args: []string{"--snapshot-every", "none", "--disk-snapshot-every", "none"}, want: &gen.Lifecycle{Rolling: &gen.Rolling{}}},
		{now: now, args: []string{"--snapshot-every", "none", "--disk-snapshot-every", "none", "--snapshot-budget-mb", "500"}, wrong: true},
		{now: now, args: []string{"--snapshot-keep", "1h:24h"}, want: &gen.Lifecycle{Rolling: &gen.Rolling{
			FullEverySeconds: seconds(120), DiskEverySeconds: seconds(60), BudgetMb: &budget, Keep: &[]gen.Tier{{EverySeconds: 3600, ForSeconds: 86400}},
		}}},
	} {
		c, f := &cobra.Command{}, &lifecycleFlags{}
		f.add(c)
		if err := c.ParseFlags(x.args); err != nil {
			t.Fatal(err)
		}
		got, err := f.lifecycle(c, x.now)
		if diff := cmp.Diff(documentOf(t, x.want), documentOf(t, got)); (err != nil) != x.wrong || diff != "" {
			t.Errorf("%v: %v, %s", x.args, err, diff)
		}
	}
}
