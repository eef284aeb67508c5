// Command bench measures a platform through its public API, and the bare mechanism in the same run, and writes build/bench.json.
//
// It starts an instance of its own, and takes turns with bench/bare, so that both see the same machine. A figure's ratio is ours divided
// by bare, over_bare is the difference of the medians. One run at a time: a lock on the machine sees to that.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
)

// lockPath makes timing runs wait for each other.
const lockPath = "/run/lock/space-bench.lock"

// deadline bounds a whole run.
const deadline = 30 * time.Minute

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	var r run
	flag.StringVar(&r.name, "instance", "bench", "instance to measure; it is started, and removed afterwards")
	flag.StringVar(&r.template, "template", "mini", "template to measure with")
	flag.IntVar(&r.rounds, "rounds", 20, "sandboxes of each kind")
	flag.IntVar(&r.execs, "execs", 5, "warm commands in each sandbox")
	flag.StringVar(&r.only, "only", "", "parts to run, with commas between them: cold, transfers, launches, memory, warm; empty: all")
	flag.BoolVar(&r.keep, "keep", false, "leave the instance running")
	out := flag.String("o", "build/bench.json", "file for the results")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	report, err := r.all(ctx)
	if err == nil {
		err = write(*out, report)
	}
	if err != nil {
		log.Fatal(err)
	}
	show(report)
}

type run struct {
	name, template string
	rounds, execs  int
	only           string // names of phases; empty: all
	keep           bool

	space  string // the binary
	client *client.Client
	inst   instance.Instance
	pool   int // how many machines wait
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
		defer func() {
			if err := r.command(context.WithoutCancel(ctx), "purge", "--yes"); err != nil {
				log.Print("remove the instance: ", err)
			}
		}()
	}
	out := report{Machine: machine(), Commit: commit()}
	for _, phase := range r.phases() {
		if r.only != "" && !slices.Contains(strings.Split(r.only, ","), phase.name) {
			continue
		}
		if r.client == nil || phase.pool != r.pool {
			if err := r.start(ctx, phase.pool); err != nil {
				return out, err
			}
			r.pool = phase.pool
		}
		results, err := phase.measure(ctx)
		if err != nil {
			return out, err
		}
		out.Results = append(out.Results, results...)
	}
	return out, nil
}

// phase is one part of a run, with a pool of a size.
type phase struct {
	name    string
	pool    int
	measure func(context.Context) ([]result, error)
}

func (r *run) phases() []phase {
	return []phase{
		{"cold", 0, r.cold}, {"transfers", 0, r.transfers}, {"launches", 0, r.launches}, {"memory", 0, r.memory}, {"warm", warmPool, r.warm},
	}
}

// start starts an instance whose pool has a size; one that runs is restarted.
func (r *run) start(ctx context.Context, pool int) error {
	var err error
	if r.space, err = filepath.Abs("bin/space"); err != nil {
		return err
	}
	if r.client != nil {
		if err := r.command(ctx, "down", "--force"); err != nil {
			return err
		}
	}
	if err := r.command(ctx, "setup"); err != nil {
		return err
	}
	if r.inst, err = instance.Find(r.name); err != nil {
		return err
	}
	if err := os.WriteFile(r.inst.ConfigFile(), fmt.Appendf(nil, "pool_size = \"%d\"\n", pool), 0o644); err != nil {
		return err
	}
	if err := r.command(ctx, "up"); err != nil {
		return err
	}
	if err := r.command(ctx, "template", "build", r.template); err != nil {
		return err
	}
	c, err := cli.Load(cli.Overrides{Instance: r.name})
	if err != nil {
		return err
	}
	r.client, err = client.New(c.URL, c.APIKey)
	return err
}

func (r *run) command(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, r.space, append(args, "--instance", r.name)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("space %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

func since(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }
