package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// socketWait bounds how long the first start of later programs waits for an earlier one's socket.
const socketWait = 10 * time.Second

// socketPoll is how often a socket is tried: its file may exist long before its listener, so there is nothing to watch.
const socketPoll = 20 * time.Millisecond

// lockWait is how long a supervisor waits for the instance: somebody may be looking whether it's held, which takes it for an instant.
const lockWait = 500 * time.Millisecond

// Name is the supervisor's own name in pid files and logs.
const Name = "supervisor"

// Run keeps the programs running until the context ends, and leaves them running then. ErrRunning if another supervisor does so already.
func Run(ctx context.Context, dirs Dirs, programs []Program) error {
	waiting, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	held, err := acquire(waiting, dirs.Run)
	if err != nil {
		return err
	}
	defer held.Close()
	self, err := record(os.Getpid(), os.Geteuid(), time.Now())
	if err != nil {
		return fmt.Errorf("write down the supervisor: %w", err)
	}
	if err := write(dirs.Run, Name, self); err != nil {
		return err
	}
	defer remove(dirs.Run, Name)
	var wg sync.WaitGroup
	wg.Go(func() { rotateAll(ctx, dirs.Log, names(programs)) })
	for _, p := range programs {
		up := make(chan struct{})
		k := &keeper{program: p, dirs: dirs}
		wg.Go(func() { k.run(ctx, up) })
		waitUp(ctx, p, up)
	}
	wg.Wait()
	return nil
}

func names(programs []Program) []string {
	out := []string{Name}
	for _, p := range programs {
		out = append(out, p.Name)
	}
	return out
}

// waitUp waits until a program was started and, if it has one, its socket accepts.
func waitUp(ctx context.Context, p Program, up <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-up:
	}
	if p.Socket == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, socketWait)
	defer cancel()
	for {
		c, err := net.Dial("unix", p.Socket)
		if err == nil {
			c.Close()
			return
		}
		if !sleep(ctx, socketPoll) {
			slog.Warn("a role's socket doesn't accept yet, the others are started all the same", "of", p.Name, "err", err)
			return
		}
	}
}
