package template

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

func TestWhatAUserIsToldOfAFailedBuild(t *testing.T) {
	const path = "/var/lib/space/volume/templates/x.new/rootfs.img"
	for code, err := range map[space.Code]error{
		space.CodeCapacity: at(2, &os.PathError{Op: "write", Path: path, Err: unix.ENOSPC}),
		space.CodeInternal: at(2, &os.PathError{Op: "write", Path: path, Err: unix.EIO}),
		space.CodeGuest:    at(2, space.Errorf(space.CodeGuest, "it ended with status 1")),
	} {
		e := failure(err)
		if e.Code != code || strings.Contains(e.Message, path) || e.Message == "" {
			t.Errorf("%v: %s %q, want %s without the path", err, e.Code, e.Message, code)
		}
	}
}

// TestNotReadyNamesTheCheck has all ends of a ready check's last try.
func TestNotReadyNamesTheCheck(t *testing.T) {
	for want, x := range map[string]struct {
		err  error
		exit *sessionv1.Exit
		last []string
	}{
		"it ended with status 7; it printed last: no\nyet":                 {exit: &sessionv1.Exit{Code: 7}, last: []string{"no", "yet"}},
		"it was ended by SIGKILL":                                          {exit: &sessionv1.Exit{Signal: 9, SignalName: "SIGKILL"}},
		"it couldn't be started: user \"x\": not in /etc/passwd":           {exit: &sessionv1.Exit{Error: "user \"x\": not in /etc/passwd"}},
		"it was still running when the time was over; it printed last: hm": {err: context.DeadlineExceeded, last: []string{"hm"}},
		"the command was lost":                                             {err: space.Errorf(space.CodeGuest, "the command was lost")},
	} {
		err := (&builder{order: Order{Ready: "curl localhost"}}).notReady(x.err, x.exit, x.last)
		want = `the ready check "curl localhost" didn't succeed within 5m0s: ` + want
		if e := failure(at(1, err)); e.Message != want || e.Field != "ready_check" || e.Code != space.CodeTimeout {
			t.Errorf("%+v, want %s", e, want)
		}
	}
	for step, want := range map[int]int{0: 0, 1: 1, 2: 2, 3: AfterSteps} {
		if got := (Order{Steps: make([]Step, 2)}).failedStep(at(step, errTooLong)); got != want {
			t.Errorf("step %d is told as %d", step, got)
		}
	}
}

// TestAStartCommandThatFailsBesideItsCheck ends the build at once, whatever the check says: that it's ready all the same, that it isn't yet, or nothing.
func TestAStartCommandThatFailsBesideItsCheck(t *testing.T) {
	broken := errors.New("it ended with status 3")
	says := func(code int32) try {
		return func(context.Context) ([]string, *sessionv1.Exit, error) { return nil, &sessionv1.Exit{Code: code}, nil }
	}
	hangs := func(ctx context.Context) ([]string, *sessionv1.Exit, error) {
		<-ctx.Done()
		return nil, nil, context.Cause(ctx)
	}
	for name, x := range map[string]struct {
		check try
		fails time.Duration // of the start command; 0: it runs on
		want  error
		took  time.Duration
	}{
		"ready, and then it fails": {says(0), time.Second, broken, time.Second}, "never ready": {says(1), 3500 * time.Millisecond, broken, 3500 * time.Millisecond},
		"a check that hangs": {hangs, time.Minute, broken, time.Minute}, "ready, and it runs on": {says(0), 0, nil, startGrace},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &builder{order: Order{Ready: "curl localhost"}, now: func(string) {}, log: func(int, string) {}}
				began := time.Now()
				err := b.beside(t.Context(), func(ctx context.Context) error {
					if x.fails == 0 {
						<-ctx.Done()
						return context.Cause(ctx)
					}
					time.Sleep(x.fails)
					return broken
				}, x.check)
				if took := time.Since(began); err != x.want || took != x.took {
					t.Errorf("after %s: %v, want %v after %s", took, err, x.want, x.took)
				}
			})
		})
	}
}

// TestACheckHasItsTime gives up on one that never ends, and on one that never succeeds.
func TestACheckHasItsTime(t *testing.T) {
	for want, check := range map[string]try{
		"it was still running when the time was over": func(ctx context.Context) ([]string, *sessionv1.Exit, error) {
			<-ctx.Done()
			return nil, nil, context.Cause(ctx)
		},
		"it ended with status 1; it printed last: no": func(context.Context) ([]string, *sessionv1.Exit, error) {
			return []string{"no"}, &sessionv1.Exit{Code: 1}, nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &builder{order: Order{Ready: "false"}, now: func(string) {}, log: func(int, string) {}}
			began := time.Now()
			err := b.awaitReady(t.Context(), check)
			if took := time.Since(began); took != readyTimeout || err == nil || !strings.HasSuffix(failure(err).Message, want) {
				t.Errorf("after %s: %v, want %s", took, err, want)
			}
		})
	}
}

// TestACopysFaultHasTheOrdersField: the guest speaks of its own call.
func TestACopysFaultHasTheOrdersField(t *testing.T) {
	for guest, want := range map[string]string{"owner": "steps[1].copy.owner", "group": "steps[1].copy.owner", "path": "steps[1].copy.to", "archive": "steps[1]", "": "steps[1]"} {
		err := blameCopy(2, space.FieldErrorf(guest, "no such thing"))
		if e := failure(err); e.Field != want || e.Message != "no such thing" || e.Code != space.CodeInvalid {
			t.Errorf("%q: %+v, want the field %s", guest, e, want)
		}
	}
	if blameCopy(2, nil) != nil {
		t.Error("a copy without a fault has one")
	}
}

// TestACommandWithoutANetworkSaysSo has what fetching programs print when no name can be resolved.
func TestACommandWithoutANetworkSaysSo(t *testing.T) {
	for line, missed := range map[string]bool{
		"W: Failed to fetch http://deb.debian.org/debian/dists/bookworm/InRelease  Temporary failure resolving 'deb.debian.org'":                                                                                            true,
		"WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'NewConnectionError('<x>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/requests/": true,
		"npm error code EAI_AGAIN": true, "npm error code ENOTFOUND": true,
		"fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com": true,
		"connect: Network is unreachable":    true,
		"E: Unable to locate package nosuch": false, "error: merge conflict: resolve it by hand": false, "make: *** [all] Error 2": false,
	} {
		if missedNetwork.MatchString(line) != missed {
			t.Errorf("%q: want %v", line, missed)
		}
	}
	err := exitError(&sessionv1.Exit{Code: 100}, []string{"E: Unable to locate package nosuch"})
	if got := explained(err, true); space.CodeOf(got) != space.CodeGuest || !strings.HasPrefix(got.Error(), err.Error()) || !strings.HasSuffix(got.Error(), noNetwork) {
		t.Errorf("%v", got)
	}
	if got := explained(err, false); got != err || explained(nil, true) != nil {
		t.Errorf("%v", got)
	}
}
