package template

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	space "github.com/space-platform/space"
	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/vmm"
)

// The time limits of a warm-up, for a loaded machine under emulation.
const (
	bootTimeout = 2 * time.Minute // from the start to the guest's acknowledgement
	warmTimeout = 2 * time.Minute // for one command
	callTimeout = time.Minute     // for one call to the machine or the guest
)

// maxWarmOutput bounds what an error repeats of a warm-up command's output, in bytes.
const maxWarmOutput = 2 << 10

// warm greets the guest, runs the recipe's commands and lets the guest come to rest. The link is closed when it returns.
func (b builder) warm(ctx context.Context, m vmm.Machine) error {
	l, err := b.greet(ctx, m)
	if err != nil {
		return err
	}
	defer l.Close()
	dir, err := os.MkdirTemp(b.cfg.Dir, "warm-*"+buildSuffix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sessions, err := session.Open(dir, session.Limits{}, slog.Default())
	if err != nil {
		return err
	}
	defer sessions.Close()
	sessions.Use(l)
	for _, c := range b.recipe.Warmup {
		b.progress("warming up: " + strings.Join(c.Argv, " "))
		if err := run(ctx, sessions, c); err != nil {
			return fmt.Errorf("warm up with %q: %w", c.Argv[0], err)
		}
	}
	wait, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := sessions.Settle(wait); err != nil {
		return err
	}
	return quiesce(wait, l)
}

func (b builder) greet(ctx context.Context, m vmm.Machine) (*link.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	l, err := machine.Greet(ctx, m, link.Sync{Execution: space.NewID(space.PrefixExecution), Epoch: 1, Adopt: true, Hostname: rootfs.Hostname})
	if err != nil {
		return nil, fmt.Errorf("boot the template: %w", err)
	}
	return l, nil
}

// run runs one command to its end.
func run(ctx context.Context, sessions *session.Set, c rootfs.Command) error {
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	var output []byte
	var exit *sessionv1.Exit
	r := session.Request{Session: space.NewID(space.PrefixSession), Spec: &sessionv1.Spec{Argv: c.Argv, User: c.User}}
	err := sessions.Attach(ctx, r, func(e *sessionv1.AttachResponse) error {
		output = append(output, e.GetOutput().GetData()...)
		output = output[max(0, len(output)-maxWarmOutput):]
		if e.GetExit() != nil {
			exit = e.GetExit()
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case exit == nil:
		return fmt.Errorf("it was lost: %s", output)
	case exit.GetError() != "":
		return fmt.Errorf("it couldn't be started: %s", exit.GetError())
	case exit.GetCode() != 0 || exit.GetSignal() != 0:
		return fmt.Errorf("it ended with status %d, signal %d: %s", exit.GetCode(), exit.GetSignal(), output)
	}
	return nil
}

// quiesce lets the guest write everything to its disk and drop what it needn't keep.
func quiesce(ctx context.Context, l *link.Link) error {
	first, err := proto.Marshal(&guestv1.Call{Call: &guestv1.Call_Quiesce{Quiesce: &guestv1.Quiesce{}}})
	if err != nil {
		return err
	}
	st, err := l.Open(ctx, first)
	if err != nil {
		return fmt.Errorf("quiesce the guest: %w", err)
	}
	defer st.Reset(link.CodeCancelled)
	b, err := st.Recv(ctx)
	if err != nil {
		return fmt.Errorf("quiesce the guest: %w", err)
	}
	if err := proto.Unmarshal(b, new(guestv1.Quiesced)); err != nil {
		return fmt.Errorf("quiesce the guest: %w", err)
	}
	return nil
}
