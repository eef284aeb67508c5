//go:build e2e && long

package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/space-platform/space/internal/instance"
)

var killSeed = flag.Uint64("kill-seed", 0, "of the moments at which TestLongKilledInAVerb kills; 0: another one each time, which it prints")

// killTrials is how often each of the daemons, PostgreSQL and the machine are killed in each verb.
const killTrials = 2

// TestLongKilledInAVerb kills each daemon of the way, PostgreSQL, and the machine, at any moment of each verb: afterwards the sandbox is what it was or what it was to be,
// with all its memory, processes and files, nothing that it makes is half, and when all is deleted nothing is left.
func TestLongKilledInAVerb(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kill-seed %d repeats it", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	steps := map[string]int{}
	for _, v := range []killedVerb{killedCreate, killedStop, killedStart, killedPause, killedResume, killedDelete, killedSuspend, killedRestore, killedSnapshot, killedFork, killedRollback} {
		usual := time.Duration(0)
		for _, victim := range []instance.Role{"", instance.Postgres, instance.API, instance.NodeAPI, instance.Manager, instance.Host, machineVictim} {
			for n := range killTrials {
				if victim == "" && n > 0 {
					break // nobody is killed: how long does it take?
				}
				after := time.Duration(rng.Float64() * float64(usual))
				t.Run(fmt.Sprintf("%s/%s/%s", v.name, victim, after.Round(time.Millisecond)), func(t *testing.T) {
					x := newTrial(t, victim)
					x.begin(v)
					began := time.Now()
					now, step := x.do(v, func(<-chan struct{}) { <-time.After(after) })
					if victim == "" {
						usual = time.Since(began)
					} else {
						steps[v.name+": "+step]++
					}
					v.after(x, now)
				})
			}
		}
	}
	names := make([]string, 0, len(steps))
	for s := range steps {
		names = append(names, s)
	}
	slices.Sort(names)
	for _, s := range names {
		t.Logf("killed %d times in %s", steps[s], s)
	}
	x := &trial{t: t}
	x.nothingLeft()
}
