package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// errStill says that an L1 stands still: QEMU has lost an interrupt that its kernel waits for, so that not even the deadlines in it pass.
var errStill = errors.New("the L1 stands still")

// stillLimit is how long QEMU may use no processor time. An L1 in which nothing happens still has its clock's ticks and its daemons' timers, which
// are some hundredths of a second each second.
const stillLimit = 2 * time.Minute

// cancelStill ends a context with errStill when an L1 has used no processor time for so long. It returns when the context is done, or the L1 has ended: then
// used fails.
func cancelStill(ctx context.Context, cancel context.CancelCauseFunc, used func() (int, error), limit time.Duration) {
	look := time.NewTicker(limit / 8)
	defer look.Stop()
	last, since := 0, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		now, err := used()
		switch {
		case err != nil:
			return
		case now != last:
			last, since = now, time.Now()
		case time.Since(since) >= limit:
			cancel(fmt.Errorf("%w: it has used no processor time for %s", errStill, limit))
			return
		}
	}
}

// processorTime is what a process has used, in hundredths of a second.
func processorTime(pid int) (int, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	const user, system = 14 - 3, 15 - 3
	_, rest, _ := strings.Cut(string(b), ") ") // the program's name may have spaces, and QEMU's has no bracket
	fields := strings.Fields(rest)             // from the third on
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/%d/stat is %q", pid, b)
	}
	u, err := strconv.Atoi(fields[user])
	if err != nil {
		return 0, err
	}
	s, err := strconv.Atoi(fields[system])
	return u + s, err
}
