package e2b

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

func (f *Facade) connectSandbox(w http.ResponseWriter, r *request) error {
	var in struct {
		Timeout *int  `json:"timeout"`
		Memory  *bool `json:"memory"`
	}
	if err := r.read(&in); err != nil {
		return err
	}
	timeout, err := checkTimeout(in.Timeout, 1)
	if err != nil {
		return err
	}
	s, err := r.living(r.Context())
	if err != nil {
		return err
	}
	status := http.StatusOK
	if slices.Contains(paused, s.State) || slices.Contains(leaving, s.State) {
		status = http.StatusCreated
		if s, err = f.wake(r.Context(), r, s, timeout); err != nil {
			return err
		}
	} else if err := f.extend(r.Context(), r, s, timeout); err != nil {
		return err
	}
	out, err := f.open(r.Context(), r, s)
	if err != nil {
		return err
	}
	answer(w, status, out)
	return nil
}

// wake brings a paused sandbox back, with a new deadline, which it gets when it runs: one that can't be brought back has none.
func (f *Facade) wake(ctx context.Context, r *request, s client.Sandbox, timeout int) (client.Sandbox, error) {
	until, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	for {
		_, err := r.platform.WakeSandbox(ctx, s.Id)
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

// resumeSandbox is how SDKs before connect brought a sandbox back.
func (f *Facade) resumeSandbox(w http.ResponseWriter, r *request) error {
	var in struct {
		Timeout *int `json:"timeout"`
	}
	if err := r.read(&in); err != nil {
		return err
	}
	timeout, err := checkTimeout(in.Timeout, 1)
	if err != nil {
		return err
	}
	s, err := r.living(r.Context())
	if err != nil {
		return err
	}
	if !slices.Contains(paused, s.State) && !slices.Contains(leaving, s.State) {
		return refuse(http.StatusConflict, "sandbox %s is running already", publicID(s.Id))
	}
	if s, err = f.wake(r.Context(), r, s, timeout); err != nil {
		return err
	}
	out, err := f.open(r.Context(), r, s)
	if err != nil {
		return err
	}
	answer(w, http.StatusCreated, out)
	return nil
}
