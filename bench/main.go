// Command bench measures a platform through its public API, and the bare mechanism in the same run, and writes build/bench.json.
//
// It starts an instance of its own, and takes turns with bench/bare, so that both see the same machine. A figure's ratio is ours divided
// by bare, over_bare is the difference of the medians. One run at a time: a lock on the machine sees to that.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
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
	keep           bool

	space  string // the binary
	client *client.Client
	inst   instance.Instance
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
	if err := r.start(ctx); err != nil {
		return report{}, err
	}
	if !r.keep {
		defer func() {
			if err := r.command(context.WithoutCancel(ctx), "purge", "--yes"); err != nil {
				log.Print("remove the instance: ", err)
			}
		}()
	}
	return r.measure(ctx)
}

func (r *run) start(ctx context.Context) error {
	var err error
	if r.space, err = filepath.Abs("bin/space"); err != nil {
		return err
	}
	if err := r.command(ctx, "up"); err != nil {
		return err
	}
	if err := r.command(ctx, "template", "build", r.template); err != nil {
		return err
	}
	if r.inst, err = instance.Find(r.name); err != nil {
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

// measure takes turns: a round of bare, a round of ours.
func (r *run) measure(ctx context.Context) (report, error) {
	var ours, bare lives
	for n := range r.rounds {
		log.Printf("round %d of %d", n+1, r.rounds)
		b, err := r.bare(ctx, n == 0)
		if err != nil {
			return report{}, err
		}
		bare.add(b)
		o, err := r.life(ctx)
		if err != nil {
			return report{}, err
		}
		ours.add(o)
	}
	return report{Machine: machine(), Commit: commit(), Results: []result{
		compare("create_cold_running_ms", ours.Create, bare.Create),
		compare("exec_echo_first_ms", ours.ExecFirst, bare.ExecFirst),
		compare("exec_echo_ms", ours.ExecWarm, bare.ExecWarm),
		compare("delete_ms", ours.Delete, nil),
	}}, nil
}

// lives are the milliseconds of sandboxes' lives; bench/bare prints the same names.
type lives struct {
	Create    []float64 `json:"create_cold_running_ms"`
	ExecFirst []float64 `json:"exec_echo_first_ms"`
	ExecWarm  []float64 `json:"exec_echo_ms"`
	Delete    []float64 `json:"delete_ms"`
}

func (l *lives) add(m lives) {
	l.Create = append(l.Create, m.Create...)
	l.ExecFirst = append(l.ExecFirst, m.ExecFirst...)
	l.ExecWarm = append(l.ExecWarm, m.ExecWarm...)
	l.Delete = append(l.Delete, m.Delete...)
}

// bare runs one life by hand.
func (r *run) bare(ctx context.Context, line bool) (lives, error) {
	t, err := r.client.GetTemplate(ctx, r.template)
	if err != nil {
		return lives{}, err
	}
	// A template's directory is its id and something that tells its makings apart; there is one while nothing is being made anew.
	dirs, err := filepath.Glob(filepath.Join(r.inst.Volume(), "templates", space.HostLabel(t.Id)+"-*"))
	if err != nil || len(dirs) != 1 {
		return lives{}, fmt.Errorf("the snapshot of template %s: found %d: %v", t.Id, len(dirs), err)
	}
	cmd := exec.CommandContext(ctx, "build/bare", "-rounds", "1", "-execs", fmt.Sprint(r.execs), fmt.Sprintf("-line=%t", line),
		"-snapshot", dirs[0], "-scratch", r.inst.Volume())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return lives{}, fmt.Errorf("bare: %w", err)
	}
	var l lives
	if err := json.Unmarshal(out, &l); err != nil {
		return lives{}, fmt.Errorf("bare: %w", err)
	}
	return l, nil
}

// life runs one sandbox through the public API.
func (r *run) life(ctx context.Context) (lives, error) {
	var l lives
	began := time.Now()
	s, err := r.client.CreateSandbox(ctx, client.SandboxCreate{Template: r.template})
	if err != nil {
		return l, err
	}
	l.Create = append(l.Create, since(began))
	for n := range r.execs + 1 {
		began := time.Now()
		if err := r.echo(ctx, s); err != nil {
			return l, err
		}
		if n == 0 {
			l.ExecFirst = append(l.ExecFirst, since(began))
		} else {
			l.ExecWarm = append(l.ExecWarm, since(began))
		}
	}
	began = time.Now()
	if err := r.client.DeleteSandbox(ctx, s.Id); err != nil {
		return l, err
	}
	l.Delete = append(l.Delete, since(began))
	return l, nil
}

func (r *run) echo(ctx context.Context, s client.Sandbox) error {
	c, err := r.client.CreateSession(ctx, s.Id, client.SessionCreate{Argv: &[]string{"/bin/echo", "hello"}})
	if err != nil {
		return err
	}
	var out string
	for e, err := range r.client.Attach(ctx, c.Session, c.Attachment) {
		if err != nil {
			return err
		}
		out += string(e.Data)
	}
	if out != "hello\n" {
		return fmt.Errorf("echo printed %q", out)
	}
	return nil
}

func since(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }
