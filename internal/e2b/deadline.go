package e2b

import (
	"cmp"
	"context"
	"hash/maphash"
	"net/http"
	"time"

	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

const (
	defaultTimeout = 300             // seconds, of a sandbox whose creator doesn't say
	maxTimeout     = 365 * 24 * 3600 // seconds: the platform's longest lifetime
)

// reserved begins the names of metadata that is the facade's own. E2B's side doesn't see it.
const reserved = "e2b.internal/"

// What a sandbox is to become at its timeout is kept beside it, since a lifetime is over once it was carried out.
const (
	markTimeout = reserved + "on-timeout"  // of every sandbox that was made here: one of the words that follow
	markResume  = reserved + "auto-resume" // "true" or absent
)

// The words of markTimeout.
const (
	timeoutKill  = "kill"
	timeoutPause = "pause"
	timeoutStop  = "pause without memory"
)

// actions are the platform's for them.
var actions = map[string]api.LifetimeOnExpiry{
	timeoutKill: api.LifetimeOnExpiryDelete, timeoutPause: api.LifetimeOnExpirySuspend, timeoutStop: api.LifetimeOnExpiryStop,
}

// idle is for a sandbox that is resumed by what is done with it. Who does that has no key, and can give it no time: what ends its next life is that
// nothing is done with it for as long as its timeout was.
func idle(timeout int) *api.Idle {
	after := max(timeout, leastIdle)
	return &api.Idle{Action: api.IdleActionSuspend, AfterSeconds: &after}
}

// leastIdle is the shortest time without activity after which the platform suspends a sandbox, in seconds.
const leastIdle = 60

// checkTimeout refuses a timeout beyond its limits; absent is the usual one.
func checkTimeout(seconds *int, least int) (int, error) {
	if seconds == nil {
		return defaultTimeout, nil
	}
	if *seconds < least || *seconds > maxTimeout {
		return 0, refuse(http.StatusBadRequest, "timeout is %d seconds: it must be %d to %d", *seconds, least, maxTimeout)
	}
	return *seconds, nil
}

func onTimeout(s client.Sandbox) string {
	if mark := s.Metadata[markTimeout]; mark == timeoutPause || mark == timeoutStop {
		return "pause"
	}
	return "kill"
}

// lasting is a call that gives a sandbox a time.
type lasting struct {
	Timeout  *int  `json:"timeout"`  // seconds
	Duration *int  `json:"duration"` // its name for the SDKs before connect
	Memory   *bool `json:"memory"`   // of a paused sandbox; false: it boots from its disk
}

// lasting reads such a call: the time in seconds, at least so many, and the sandbox.
func (r *request) lasting(least int) (in lasting, timeout int, s client.Sandbox, err error) {
	if err = r.read(&in); err != nil {
		return in, 0, s, err
	}
	if timeout, err = checkTimeout(cmp.Or(in.Timeout, in.Duration), least); err != nil {
		return in, 0, s, err
	}
	s, err = r.living(r.Context())
	return in, timeout, s, err
}

// live gives a sandbox a time from now on.
func (f *Facade) live(ctx context.Context, r *request, s client.Sandbox, timeout int) (client.Sandbox, error) {
	change := client.SandboxUpdate{Lifetime: &client.Lifetime{Seconds: &timeout, OnExpiry: action(s)}}
	if s.Metadata[markResume] != "" {
		change.Lifecycle = &api.Lifecycle{Idle: idle(timeout)}
	}
	return r.platform.UpdateSandbox(ctx, s.Id, change)
}

// action is what the platform does with a sandbox at its timeout.
func action(s client.Sandbox) api.LifetimeOnExpiry {
	if a, ok := actions[s.Metadata[markTimeout]]; ok {
		return a
	}
	return api.LifetimeOnExpiryDelete
}

// turnSeed spreads sandboxes over turns.
var turnSeed = maphash.MakeSeed()

// extend puts a deadline off, and never brings it nearer, whoever else does the same.
func (f *Facade) extend(ctx context.Context, r *request, s client.Sandbox, timeout int) error {
	if !endsWithin(s, timeout) {
		return nil
	}
	turn := &f.turns[maphash.String(turnSeed, s.Id)%uint64(len(f.turns))]
	turn.Lock()
	defer turn.Unlock()
	now, err := r.platform.GetSandbox(ctx, s.Id)
	if err != nil || !endsWithin(now, timeout) {
		return err
	}
	_, err = f.live(ctx, r, now, timeout)
	return err
}

// endsWithin tells whether a sandbox's time is over before that long from now. One that was made elsewhere to live on has no end.
func endsWithin(s client.Sandbox, timeout int) bool {
	if s.Lifetime == nil || s.Lifetime.Deadline == nil {
		return s.Metadata[markTimeout] != ""
	}
	return time.Now().Add(time.Duration(timeout) * time.Second).After(*s.Lifetime.Deadline)
}

// setTimeout moves the deadline, also nearer; 0 ends the sandbox now.
func (f *Facade) setTimeout(w http.ResponseWriter, r *request) error {
	in, timeout, s, err := r.lasting(0)
	switch {
	case err != nil:
		return notFoundWhileKilled(err, r)
	case in.Timeout == nil:
		return refuse(http.StatusBadRequest, "timeout is required")
	case timeout == 0:
		err = f.end(r, s)
	default:
		_, err = f.live(r.Context(), r, s, timeout)
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// end does with a sandbox what its timeout would.
func (f *Facade) end(r *request, s client.Sandbox) error {
	switch s.Metadata[markTimeout] {
	case timeoutPause:
		return f.pause(r, s, true)
	case timeoutStop:
		return f.pause(r, s, false)
	}
	return r.platform.DeleteSandbox(r.Context(), s.Id)
}

// refreshSandbox is how SDKs before connect put a deadline off.
func (f *Facade) refreshSandbox(w http.ResponseWriter, r *request) error {
	_, duration, s, err := r.lasting(1)
	if err != nil {
		return notFoundWhileKilled(err, r)
	}
	if err := f.extend(r.Context(), r, s, duration); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
