package e2b

import (
	"log/slog"
	"net/http"
	"slices"
	"time"

	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// pauseSandbox answers when the sandbox is durable.
func (f *Facade) pauseSandbox(w http.ResponseWriter, r *request) error {
	var in struct {
		Memory *bool `json:"memory"`
	}
	if err := r.read(&in); err != nil {
		return err
	}
	s, err := r.living(r.Context())
	if err != nil {
		return notFoundWhileKilled(err, r)
	}
	if slices.Contains(paused, s.State) {
		return refuse(http.StatusConflict, "sandbox %s is paused already", publicID(s.Id))
	}
	if err := f.pause(r, s, in.Memory == nil || *in.Memory); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// pause suspends a sandbox, or stops it, which leaves its memory. A paused sandbox has no deadline: it's taken before, since one that passes
// meanwhile may be the sandbox's end, and given back if there's no pause.
func (f *Facade) pause(r *request, s client.Sandbox, memory bool) error {
	ctx := r.Context()
	if s.Lifetime != nil {
		if _, err := r.platform.UpdateSandbox(ctx, s.Id, client.SandboxUpdate{Lifetime: &client.Lifetime{OnExpiry: api.LifetimeOnExpiryNone}}); err != nil {
			return err
		}
	}
	var err error
	if memory {
		_, err = r.platform.SuspendSandbox(ctx, s.Id)
	} else {
		_, err = r.platform.StopSandbox(ctx, s.Id)
	}
	if err != nil && s.Lifetime != nil {
		ctx, cancel := detached(ctx)
		defer cancel()
		if _, err := r.platform.UpdateSandbox(ctx, s.Id, client.SandboxUpdate{Lifetime: again(*s.Lifetime, time.Now())}); err != nil {
			slog.ErrorContext(ctx, "a sandbox that couldn't be paused has no deadline any more", "sandbox", s.Id, "err", err) // the pause's error is told
		}
	}
	return err
}

// leastAgain is the shortest time that a sandbox has when it's given its deadline back.
const leastAgain = 60 * time.Second

// again is a lifetime that was taken, to be given back. The platform refuses a deadline that has passed meanwhile.
func again(l client.Lifetime, now time.Time) *client.Lifetime {
	if least := now.Add(leastAgain); l.Deadline != nil && l.Deadline.Before(least) {
		l.Deadline = &least
	}
	return &l
}
