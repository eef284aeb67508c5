package e2b

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	space "github.com/space-platform/space"
	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// connectSandbox wakes a paused sandbox, and puts the deadline of one that runs off.
func (f *Facade) connectSandbox(w http.ResponseWriter, r *request) error {
	in, timeout, s, err := r.lasting(1)
	if err != nil {
		return err
	}
	if asleep(s) {
		return f.bringBack(w, r, s, timeout, in.cold())
	}
	if err := f.extend(r.Context(), r, s, timeout); err != nil {
		return err
	}
	return f.answerOpen(w, r, s, http.StatusOK)
}

// resumeSandbox is how SDKs before connect brought a sandbox back.
func (f *Facade) resumeSandbox(w http.ResponseWriter, r *request) error {
	in, timeout, s, err := r.lasting(1)
	switch {
	case err != nil:
		return err
	case !asleep(s):
		return refuse(http.StatusConflict, "sandbox %s is running already", publicID(s.Id))
	}
	return f.bringBack(w, r, s, timeout, in.cold())
}

// asleep tells whether a sandbox is paused, or about to be.
func asleep(s client.Sandbox) bool {
	return slices.Contains(paused, s.State) || slices.Contains(leaving, s.State)
}

// cold tells whether a paused sandbox is to boot from its disk.
func (l lasting) cold() bool { return l.Memory != nil && !*l.Memory }

// bringBack wakes a sandbox to its end, though its client may leave: else it would run without a deadline.
func (f *Facade) bringBack(w http.ResponseWriter, r *request, s client.Sandbox, timeout int, cold bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), changeTime)
	defer cancel()
	s, err := f.wake(ctx, r, s, timeout, cold)
	if err != nil {
		return err
	}
	return f.answerOpen(w, r, s, http.StatusCreated)
}

// answerOpen answers with a sandbox and what opens it.
func (f *Facade) answerOpen(w http.ResponseWriter, r *request, s client.Sandbox, status int) error {
	out, err := f.open(r.Context(), r, s)
	if err != nil {
		return err
	}
	answer(w, status, out)
	return nil
}

// wake brings a paused sandbox back, with a new deadline, which it gets when it runs: one that can't be brought back has none. Cold, its memory is left.
func (f *Facade) wake(ctx context.Context, r *request, s client.Sandbox, timeout int, cold bool) (client.Sandbox, error) {
	until, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	for {
		err := r.wakeOnce(ctx, s.Id, cold)
		if err == nil {
			s.Lifetime = nil // what it was before the pause says nothing
			return s, f.begin(ctx, r, s, timeout)
		}
		if !is(err, space.CodeConflict) {
			return s, err
		}
		select { // it is just being paused, at its timeout perhaps
		case <-time.After(leavePoll):
		case <-until.Done():
			return s, err
		}
	}
}

func (r *request) wakeOnce(ctx context.Context, id string, cold bool) error {
	if !cold {
		_, err := r.platform.WakeSandbox(ctx, id)
		return err
	}
	_, err := r.platform.RestoreSandbox(ctx, id, true)
	if !is(err, space.CodeConflict) {
		return err
	}
	if now, other := r.platform.GetSandbox(ctx, id); other != nil || now.State != api.SandboxStateStopped {
		return err
	}
	_, err = r.platform.StartSandbox(ctx, id) // its pause has left the memory
	return err
}

// begin gives a sandbox that was woken its deadline, though its client may have gone: without one it would run on.
func (f *Facade) begin(ctx context.Context, r *request, s client.Sandbox, timeout int) error {
	err := f.extend(ctx, r, s, timeout)
	if err == nil {
		return nil
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	if err = f.extend(ctx, r, s, timeout); err != nil {
		slog.ErrorContext(ctx, "a sandbox that was woken may have no deadline", "sandbox", s.Id, "err", err)
	}
	return err
}

// A sandbox that is about to be paused is waited for, for so long, and looked at so often.
const (
	leaveTime = time.Minute
	leavePoll = 100 * time.Millisecond
)
