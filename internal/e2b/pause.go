package e2b

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

const (
	// changeTime bounds a pause or a wake, whose client may leave.
	changeTime = 10 * time.Minute
	// healthTime is how long a sandbox has to answer before a pause that wants it healthy.
	healthTime = 5 * time.Second
)

// pauseSandbox answers when the sandbox is durable.
func (f *Facade) pauseSandbox(w http.ResponseWriter, r *request) error {
	var in struct {
		Memory  *bool `json:"memory"`
		Healthy bool  `json:"requireHealthyGuest"`
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
	if in.Healthy {
		if err := f.healthy(r, s); err != nil {
			return err
		}
	}
	if err := f.pause(r, s, in.Memory == nil || *in.Memory); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// healthy refuses a sandbox that doesn't answer.
func (f *Facade) healthy(r *request, s client.Sandbox) error {
	ctx, cancel := context.WithTimeout(r.Context(), healthTime)
	defer cancel()
	opened, err := f.open(ctx, r, s)
	if err != nil {
		return err
	}
	a, _ := parseAccess(opened.EnvdAccessToken)
	g, err := f.guest(a, "")
	if err == nil {
		err = g.answers(ctx)
	}
	if err != nil {
		return refuse(http.StatusServiceUnavailable, "sandbox %s doesn't answer, and runs on", publicID(s.Id))
	}
	return nil
}

// pause suspends a sandbox, or stops it, which leaves its memory. A paused sandbox has no deadline: it's taken before, since one that passes
// meanwhile may be the sandbox's end, and given back if there's no pause. That's known only when it's over, though its client may have gone.
func (f *Facade) pause(r *request, s client.Sandbox, memory bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), changeTime)
	defer cancel()
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
		r.giveBack(s)
	}
	return err
}

// giveBack gives a sandbox that couldn't be paused its deadline back, unless it's paused all the same.
func (r *request) giveBack(s client.Sandbox) {
	ctx, cancel := detached(r.Context())
	defer cancel()
	now, err := r.platform.GetSandbox(ctx, s.Id)
	if err == nil && asleep(now) {
		return
	}
	if _, err := r.platform.UpdateSandbox(ctx, s.Id, client.SandboxUpdate{Lifetime: again(*s.Lifetime, time.Now())}); err != nil {
		slog.ErrorContext(ctx, "a sandbox that couldn't be paused has no deadline any more", "sandbox", s.Id, "err", err) // the pause's error is told
	}
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
