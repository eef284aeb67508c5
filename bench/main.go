// Command bench measures a platform through its public API, and the bare mechanism in the same run, and writes build/bench.json.
//
// It starts an instance of its own, and takes turns with bench/bare, so that both see the same machine. A figure's ratio is ours divided
// by bare, over_bare is the difference of the medians. One run at a time: a lock on the machine sees to that.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockPath makes timing runs wait for each other.
const lockPath = "/run/lock/space-bench.lock"

// deadline bounds a whole run.
const deadline = 30 * time.Minute

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	var r run
	name := flag.String("instance", "bench", "instance to measure; it is started, and removed afterwards, as is NAMEload")
	template := flag.String("template", "mini", "template to measure with")
	flag.StringVar(&r.only, "only", "", "phases to run, separated by commas: cold, transfers, launches, memory, state (that is state2, state30, state100, state200, gap, fork50, rolling), warm, control, e2b, list; empty for all")
	flag.IntVar(&r.rounds, "rounds", 20, "sandboxes of each kind")
	flag.IntVar(&r.execs, "execs", 5, "warm commands in each sandbox")
	flag.BoolVar(&r.keep, "keep", false, "leave the instances running")
	soak := flag.Duration("soak", 0, "run sessions for so long instead, while daemons are killed, and add to bench/soak.json")
	flag.DurationVar(&r.killEvery, "kill-every", time.Minute, "of a soak: how often a daemon is killed")
	flag.Uint64Var(&r.seed, "seed", 0, "of a soak; 0: any")
	out := flag.String("o", "build/bench.json", "file for the results")
	flag.Parse()
	var err error
	if r.platform, err = newPlatform(*name, *template, "bin"); err != nil {
		log.Fatal(err)
	}
	if r.load, err = newPlatform(*name+"load", *template, "build/load"); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *soak > 0 {
		if err := r.soak(ctx, *soak, "bench/soak.json"); err != nil {
			log.Fatal(err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	report, err := r.all(ctx) // with what was measured before an error
	if len(report.Results) > 0 {
		err = errors.Join(err, write(*out, report))
		show(report)
	}
	if err != nil {
		log.Fatal(err)
	}
}

type run struct {
	*platform
	load          *platform // of fake machines
	only          string
	rounds, execs int
	keep          bool
	seed          uint64 // of a soak
	killEvery     time.Duration
	pool          int // how many machines wait
}

// phase is a part of the run.
type phase struct {
	name    string
	pool    int // noMachines: on fake ones
	measure func(context.Context) ([]result, error)
	group   string // of phases, if it's in one
}

// noMachines is the pool of a phase without real machines.
const noMachines = -1

func (r *run) phases() []phase {
	all := []phase{
		{name: "cold", measure: r.cold}, {name: "transfers", measure: r.transfers}, {name: "launches", measure: r.launches}, {name: "memory", measure: r.memory},
	}
	for _, mib := range dirtyMiB {
		all = append(all, phase{name: fmt.Sprintf("state%d", mib), group: "state", measure: func(ctx context.Context) ([]result, error) { return r.states(ctx, mib) }})
	}
	all = append(all,
		phase{name: "gap", group: "state", measure: r.gap}, phase{name: "fork50", group: "state", measure: r.forkMany}, phase{name: "rolling", group: "state", measure: r.rolling},
		phase{name: "warm", pool: warmPool, measure: r.warm},
		phase{name: "control", pool: noMachines, measure: r.control}, phase{name: "e2b", pool: noMachines, measure: r.e2b}, phase{name: "list", pool: noMachines, measure: r.list},
	)
	only := strings.Split(r.only, ",")
	return slices.DeleteFunc(all, func(p phase) bool {
		return r.only != "" && !slices.Contains(only, p.name) && (p.group == "" || !slices.Contains(only, p.group))
	})
}

// all does the whole run under the lock.
func (r *run) all(ctx context.Context) (report, error) {
	lock, err := os.OpenFile(lockPath, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return report{}, err
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		log.Print("another run has the machine; waiting for it")
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
			return report{}, fmt.Errorf("lock %s: %w", lockPath, err)
		}
	}
	if !r.keep {
		defer r.remove(ctx)
	}
	out := report{Machine: machine(), Commit: commit()}
	phases := r.phases()
	if len(phases) == 0 {
		return out, fmt.Errorf("there's no phase in %q", r.only)
	}
	for _, p := range phases {
		if err := r.prepare(ctx, p.pool); err != nil {
			return out, err
		}
		results, err := p.measure(ctx)
		if err != nil {
			return out, fmt.Errorf("%s: %w", p.name, err)
		}
		out.Results = append(out.Results, results...)
	}
	return out, nil
}

// prepare starts the platform that a phase needs, unless it runs.
func (r *run) prepare(ctx context.Context, pool int) error {
	switch {
	case pool == noMachines && r.load.client == nil:
		return r.load.start(ctx, "driver = \"fake-inside\"\n")
	case pool == noMachines || r.client != nil && pool == r.pool:
		return nil
	}
	r.pool = pool
	return r.start(ctx, fmt.Sprintf("pool_size = \"%d\"\n", pool))
}

// remove removes what was started.
func (r *run) remove(ctx context.Context) {
	for _, p := range []*platform{r.platform, r.load} {
		if p.client == nil {
			continue
		}
		if err := p.purge(ctx); err != nil {
			log.Print("remove the instance: ", err)
		}
	}
}

func since(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }
