package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/supervise"
)

// How a soak goes.
const (
	soakClients      = 16              // each with a sandbox of its own
	soakSandbox      = 100             // sessions in one sandbox, before it's replaced
	soakSession      = 3 * time.Minute // that one may take, the client's retries included
	soakTell         = 15 * time.Second
	soakRefusedPause = time.Second
	soakRefusedMost  = 120 // refusals in a row, of one client
)

// soakDir is where sessions run: root's home isn't that of a fake machine's root.
var soakDir = "/"

// soaking is a run of sessions on fake machines whose daemons are killed.
type soaking struct {
	*platform
	tally *tally
	seed  uint64
	every time.Duration // a daemon is killed
	until time.Time
}

// soak runs sessions until the time is over or ctx ends, and adds to the tally.
func (r *run) soak(ctx context.Context, d time.Duration, path string) error {
	t, err := openTally(path)
	if err != nil {
		return err
	}
	p := r.load
	if err := p.start(ctx, "driver = \"fake\"\n"); err != nil {
		return err
	}
	if !r.keep {
		defer func() {
			if err := p.purge(ctx); err != nil {
				log.Print("remove the instance: ", err)
			}
		}()
	}
	s := soaking{platform: p, tally: t, seed: rand.Uint64(), until: time.Now().Add(d), every: r.killEvery}
	if r.seed != 0 {
		s.seed = r.seed
	}
	log.Printf("soak for %s, seed %d; it may be ended by Ctrl-C", d, s.seed)
	t.begin(s.seed)
	s.all(ctx)
	err = t.end()
	log.Print(t)
	return errors.Join(err, t.verdict())
}

// all has the clients work, a daemon die now and then, and the progress told. It returns when the last session has ended.
func (s *soaking) all(ctx context.Context) {
	work, cancel := context.WithDeadline(ctx, s.until)
	defer cancel()
	var clients, others sync.WaitGroup
	for n := range soakClients {
		clients.Go(func() { s.client(work, rand.New(rand.NewPCG(s.seed, uint64(n)))) })
	}
	others.Go(func() { s.killAlways(work, rand.New(rand.NewPCG(s.seed, soakClients))) })
	others.Go(func() { s.tell(work) })
	clients.Wait()
	cancel()
	others.Wait()
}

// client runs one session after the other until ctx ends. A session that has begun goes on to its end.
func (s *soaking) client(ctx context.Context, rng *rand.Rand) {
	refused := 0
	for ctx.Err() == nil {
		err := s.inOneSandbox(ctx, rng)
		if err == nil {
			refused = 0
			continue
		}
		if refused++; refused > soakRefusedMost {
			s.tally.fail("", fmt.Sprintf("refused %d times: %v", refused, err))
			return
		}
		if s.tally.refuse(err) {
			log.Print("refused: ", err)
		}
		pause(ctx, soakRefusedPause)
	}
}

// inOneSandbox creates a sandbox, runs sessions in it, and deletes it. An error is a request that the platform didn't take after the client's
// retries: nothing was promised.
func (s *soaking) inOneSandbox(ctx context.Context, rng *rand.Rand) error {
	box, err := s.platform.client.CreateSandbox(context.WithoutCancel(ctx), client.SandboxCreate{Template: s.template})
	if err != nil {
		return err
	}
	defer func() {
		for range soakRefusedMost {
			err := s.platform.client.DeleteSandbox(context.WithoutCancel(ctx), box.Id)
			if err == nil {
				return
			}
			s.tally.refuse(err)
			pause(ctx, soakRefusedPause)
		}
	}()
	for n := 0; n < soakSandbox && ctx.Err() == nil; n++ {
		if err := s.session(context.WithoutCancel(ctx), box.Id, drawScript(rng)); err != nil {
			return err
		}
	}
	return nil
}

// session runs one script and compares all that comes. The error is a refusal; whatever goes wrong once the session exists is a failure.
func (s *soaking) session(ctx context.Context, sandbox string, x script) error {
	ctx, cancel := context.WithTimeout(ctx, soakSession)
	defer cancel()
	var stdin *[]byte // absent, and not null
	if len(x.stdin) > 0 {
		stdin = &x.stdin
	}
	c, err := s.platform.client.CreateSession(ctx, sandbox, client.SessionCreate{Argv: &x.argv, Cwd: &soakDir, Stdin: stdin})
	if err != nil {
		return err
	}
	if wrong := x.check(s.platform.client.Attach(ctx, c.Session, c.Attachment)); wrong != "" {
		s.tally.fail(c.Session.Id, fmt.Sprintf("%q: %s", x.argv, wrong))
		return nil
	}
	s.tally.succeed()
	return nil
}

// killAlways kills a daemon now and then.
func (s *soaking) killAlways(ctx context.Context, rng *rand.Rand) {
	for pause(ctx, s.every); ctx.Err() == nil; pause(ctx, s.every) {
		roles := instance.Roles()
		role := roles[rng.IntN(len(roles))]
		if err := s.kill(ctx, role); err != nil {
			log.Printf("kill %s: %v", role, err)
		}
	}
}

// kill kills the process of a role. The supervisor starts it anew; the supervisor is started by whoever looks after the machine.
func (s *soaking) kill(ctx context.Context, role instance.Role) error {
	rec, err := supervise.Read(s.inst.RunDir(), string(role))
	if err != nil {
		return err
	}
	if !rec.Alive() {
		return errors.New("it isn't there")
	}
	log.Printf("kill -9 %s", role)
	if err := unix.Kill(rec.PID, unix.SIGKILL); err != nil {
		return err
	}
	s.tally.kill(string(role))
	if role == instance.Supervisor {
		return s.command(ctx, "up")
	}
	return nil
}

// tell prints how far it is, and keeps the tally.
func (s *soaking) tell(ctx context.Context) {
	for pause(ctx, soakTell); ctx.Err() == nil; pause(ctx, soakTell) {
		if err := s.tally.keep(); err != nil {
			log.Print(err)
		}
		log.Printf("%s; %s to go", s.tally, time.Until(s.until).Round(time.Second))
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
