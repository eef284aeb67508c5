package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

// cold measures without a pool, in turns: a round of bare, a round of ours.
func (r *run) cold(ctx context.Context) ([]result, error) {
	var ours, bare lives
	for n := range r.rounds {
		log.Printf("round %d of %d", n+1, r.rounds)
		b, err := r.bare(ctx, n == 0)
		if err != nil {
			return nil, err
		}
		bare.add(b)
		o, err := r.life(ctx)
		if err != nil {
			return nil, err
		}
		ours.add(o)
	}
	return []result{
		compare("create_cold_running_ms", ours.Create, bare.Create),
		compare("exec_echo_first_ms", ours.ExecFirst, bare.ExecFirst),
		compare("exec_echo_ms", ours.ExecWarm, bare.ExecWarm),
		compare("delete_ms", ours.Delete, nil),
	}, nil
}

// lives are the milliseconds of sandboxes' lives; bench/bare prints the same names.
type lives struct {
	Create    []float64 `json:"create_cold_running_ms"`
	ExecFirst []float64 `json:"exec_echo_first_ms"`
	ExecWarm  []float64 `json:"exec_echo_ms"`
	Delete    []float64 `json:"delete_ms"`
	Wall      []float64 `json:"launch_ms"`
	rates
	changes
}

func (l *lives) add(m lives) {
	l.Create = append(l.Create, m.Create...)
	l.ExecFirst = append(l.ExecFirst, m.ExecFirst...)
	l.ExecWarm = append(l.ExecWarm, m.ExecWarm...)
	l.Delete = append(l.Delete, m.Delete...)
	l.Wall = append(l.Wall, m.Wall...)
}

// bare runs one life by hand.
func (r *run) bare(ctx context.Context, line bool) (lives, error) {
	return r.byHand(ctx, "-rounds", "1", "-execs", fmt.Sprint(r.execs), fmt.Sprintf("-line=%t", line))
}

// byHand runs bench/bare on the template's snapshot.
func (r *run) byHand(ctx context.Context, args ...string) (lives, error) {
	return r.byHandFrom(ctx, r.template, args...)
}

// byHandFrom runs bench/bare on a template's snapshot.
func (r *run) byHandFrom(ctx context.Context, template string, args ...string) (lives, error) {
	t, err := r.client.GetTemplate(ctx, template)
	if err != nil {
		return lives{}, err
	}
	// A template's directory is its id and something that tells its makings apart; there is one while nothing is being made anew.
	dirs, err := filepath.Glob(filepath.Join(r.inst.Volume(), "templates", space.HostLabel(t.Id)+"-*"))
	if err != nil || len(dirs) != 1 {
		return lives{}, fmt.Errorf("the snapshot of template %s: found %d: %v", t.Id, len(dirs), err)
	}
	cmd := exec.CommandContext(ctx, "build/bare", append(args, "-snapshot", dirs[0], "-scratch", r.inst.Volume())...)
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
	plane, err := r.client.Plane(ctx, s.Id)
	if err != nil {
		return l, err
	}
	for n := range r.execs + 1 {
		began := time.Now()
		if err := echo(ctx, plane); err != nil {
			return l, err
		}
		if n == 0 {
			l.ExecFirst = append(l.ExecFirst, since(began))
		} else {
			l.ExecWarm = append(l.ExecWarm, since(began))
		}
	}
	if err := plane.Close(ctx); err != nil {
		return l, err
	}
	began = time.Now()
	if err := r.client.DeleteSandbox(ctx, s.Id); err != nil {
		return l, err
	}
	l.Delete = append(l.Delete, since(began))
	return l, nil
}

// hello is the command that is measured.
var hello = client.SessionCreate{Argv: &[]string{"/bin/echo", "hello"}}

// echo runs a command as a client does that holds the sandbox's token: in one request.
func echo(ctx context.Context, plane *client.Plane) error {
	return greeted(plane.Run(ctx, hello))
}

// echo runs a command as a client does that has a key: it creates the session, and attaches to it.
func (r *run) echo(ctx context.Context, s client.Sandbox) error {
	c, err := r.client.CreateSession(ctx, s.Id, hello)
	if err != nil {
		return err
	}
	return greeted(r.client.Attach(ctx, c.Session, c.Attachment))
}

// greeted reads a command's events to the end.
func greeted(events iter.Seq2[client.Event, error]) error {
	var out string
	for e, err := range events {
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
