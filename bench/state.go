package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

const (
	stateTemplate = "bench-state"
	stateMemory   = 256 // MiB
	forksOfEach   = 3   // of each life: each is a sample
)

// dirtyMiB is how much a process holds beside what a machine changes by itself, some 2 MiB.
var dirtyMiB = []int{2, 30, 100, 200}

// The goals of a fork's pause, in milliseconds, and how much may have changed for them.
const (
	pauseGoal    = 50
	pauseGoalMiB = 30
	curvePart    = 3 // of the rounds, where more has changed
)

// changes are the milliseconds of a sandbox's changes; bench/bare prints the same names.
type changes struct {
	Suspend     []float64 `json:"suspend_ms"`
	RestoreExec []float64 `json:"restore_first_exec_ms"`
	ForkPause   []float64 `json:"fork_pause_ms"`
	ForkExec    []float64 `json:"fork_first_exec_ms"`
}

func (c *changes) add(m changes) {
	c.Suspend = append(c.Suspend, m.Suspend...)
	c.RestoreExec = append(c.RestoreExec, m.RestoreExec...)
	c.ForkPause = append(c.ForkPause, m.ForkPause...)
	c.ForkExec = append(c.ForkExec, m.ForkExec...)
}

// states measures what it takes to fork, suspend and restore a sandbox that has changed so much, in turns with the same by hand.
func (r *run) states(ctx context.Context, mib int) ([]result, error) {
	if err := r.buildState(ctx); err != nil {
		return nil, err
	}
	var ours, bare changes
	rounds := r.rounds
	if mib > pauseGoalMiB { // what is told without a goal
		rounds = max(1, rounds/curvePart)
	}
	for n := range rounds {
		log.Printf("%d MiB, round %d of %d", mib, n+1, rounds)
		b, err := r.byHandFrom(ctx, stateTemplate, "-rounds", "1", "-line=false", "-forks", fmt.Sprint(forksOfEach), "-fill", fill(mib))
		if err != nil {
			return nil, err
		}
		bare.add(b.changes)
		o, err := r.change(ctx, mib)
		if err != nil {
			return nil, err
		}
		ours.add(o)
	}
	name := func(s string) string { return fmt.Sprintf("%s_%d", s, mib) }
	pause := compare(name("fork_pause_ms"), ours.ForkPause, bare.ForkPause)
	if mib <= pauseGoalMiB {
		pause = pause.below(pauseGoal)
	}
	return []result{
		compare(name("suspend_ms"), ours.Suspend, bare.Suspend), compare(name("restore_first_exec_ms"), ours.RestoreExec, bare.RestoreExec),
		pause, compare(name("fork_first_exec_ms"), ours.ForkExec, bare.ForkExec),
	}, nil
}

// buildState makes the template of the machines that are forked and suspended, unless it's there.
func (r *run) buildState(ctx context.Context) error {
	name, recipe, memory := stateTemplate, gen.TemplateCreateRecipe(r.template), stateMemory
	op, err := r.client.BeginCreateTemplate(ctx, client.TemplateCreate{Name: &name, Recipe: &recipe, MemoryMb: &memory})
	if err == nil {
		_, err = r.client.Await(ctx, op)
	}
	return err
}

// fill is a shell's command that holds so much memory, none of it zero, and says so. A change of 2 MiB is what a machine does by itself.
func fill(mib int) string {
	if mib <= 2 {
		return ""
	}
	return fmt.Sprintf(`head -c 1048576 /dev/zero | tr '\0' x >/dev/shm/part; for i in $(seq %d); do cat /dev/shm/part; done | tail -c %d | { head -c 1; echo full; sleep 100000; }`, mib, mib<<20)
}

// change runs one sandbox that is forked some times, suspended and restored.
func (r *run) change(ctx context.Context, mib int) (c changes, err error) {
	s, err := r.client.CreateSandbox(ctx, client.SandboxCreate{Template: stateTemplate})
	if err != nil {
		return c, err
	}
	defer r.deleteAll(ctx, []client.Sandbox{s})
	plane, err := r.client.Plane(ctx, s.Id) // its token outlives the suspend
	if err != nil {
		return c, err
	}
	defer plane.Close(ctx)
	if err := echo(ctx, plane); err != nil {
		return c, err
	}
	if err := r.fill(ctx, s, mib); err != nil {
		return c, err
	}
	for range forksOfEach {
		if err := r.fork(ctx, s, &c); err != nil {
			return c, err
		}
	}
	began := time.Now()
	if _, err := r.client.SuspendSandbox(ctx, s.Id); err != nil {
		return c, err
	}
	c.Suspend = append(c.Suspend, since(began))
	began = time.Now()
	if _, err = r.client.RestoreSandbox(ctx, s.Id, false); err != nil {
		return c, err
	}
	if err := echo(ctx, plane); err != nil {
		return c, err
	}
	c.RestoreExec = append(c.RestoreExec, since(began))
	return c, nil
}

// fill has a process in a sandbox hold memory.
func (r *run) fill(ctx context.Context, s client.Sandbox, mib int) error {
	command := fill(mib)
	if command == "" {
		return nil
	}
	c, err := r.client.CreateSession(ctx, s.Id, client.SessionCreate{Argv: &[]string{"/bin/sh", "-c", command}})
	if err != nil {
		return err
	}
	said := ""
	for e, err := range r.client.Attach(ctx, c.Session, c.Attachment) {
		if err != nil {
			return err
		}
		if said += string(e.Data); strings.Contains(said, "full") {
			return nil
		}
	}
	return fmt.Errorf("fill the memory of %s: it ended after %q", s.Id, said)
}

// fork forks a sandbox once, runs a command in the child, and asks for how long the sandbox stood still.
func (r *run) fork(ctx context.Context, s client.Sandbox, c *changes) error {
	began := time.Now()
	children, err := r.client.ForkSandbox(ctx, s.Id, client.SandboxFork{})
	defer r.deleteAll(ctx, children)
	if err != nil {
		return err
	}
	if err := r.echo(ctx, children[0]); err != nil {
		return err
	}
	c.ForkExec = append(c.ForkExec, since(began))
	pauses, err := r.pauses(ctx, s, "fork")
	if err != nil {
		return err
	}
	if len(pauses) == 0 {
		return fmt.Errorf("sandbox %s was forked, and has no snapshot of that", s.Id)
	}
	c.ForkPause = append(c.ForkPause, pauses[len(pauses)-1])
	return nil
}

// deleteAll deletes sandboxes that nobody measures any more.
func (r *run) deleteAll(ctx context.Context, all []client.Sandbox) {
	for _, s := range all {
		if err := r.client.DeleteSandbox(ctx, s.Id); err != nil {
			log.Print(err)
		}
	}
}

// pauses are for how long a sandbox stood still for each of its snapshots that were made for something, the oldest first.
func (r *run) pauses(ctx context.Context, s client.Sandbox, purpose string) (out []float64, err error) {
	for n, err := range r.client.ListSnapshots(ctx, s.Id) {
		if err != nil {
			return nil, err
		}
		if string(n.Purpose) == purpose && n.PauseMs != nil {
			out = append(out, float64(*n.PauseMs))
		}
	}
	slices.Reverse(out)
	return out, nil
}
