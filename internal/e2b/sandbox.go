package e2b

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	space "github.com/space-platform/space"
	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// domain is under which the SDKs' get_host names the ports of a sandbox, that aren't served yet. Without one they'd use their vendor's own, and a program's
// traffic would go there; this one leads nowhere, as its standard has it.
const domain = "sandbox.invalid"

// clientID is deprecated, and required.
const clientID = "space"

// sandbox is the answer to what makes one, or leads to one.
type sandbox struct {
	TemplateID      string `json:"templateID"`
	SandboxID       string `json:"sandboxID"`
	ClientID        string `json:"clientID"`
	EnvdVersion     string `json:"envdVersion"`
	Alias           string `json:"alias,omitempty"`
	EnvdAccessToken string `json:"envdAccessToken"`
	Domain          string `json:"domain"`
}

// listed is a sandbox in a list.
type listed struct {
	TemplateID  string            `json:"templateID"`
	Alias       string            `json:"alias,omitempty"`
	SandboxID   string            `json:"sandboxID"`
	ClientID    string            `json:"clientID"`
	StartedAt   time.Time         `json:"startedAt"`
	EndAt       time.Time         `json:"endAt"`
	CPUCount    int               `json:"cpuCount"`
	MemoryMB    int               `json:"memoryMB"`
	DiskSizeMB  int               `json:"diskSizeMB"`
	State       string            `json:"state"`
	EnvdVersion string            `json:"envdVersion"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// detail is a sandbox by itself.
type detail struct {
	listed
	EnvdAccessToken string     `json:"envdAccessToken"`
	Domain          string     `json:"domain"`
	Lifecycle       *lifecycle `json:"lifecycle,omitempty"`
}

type lifecycle struct {
	AutoResume bool   `json:"autoResume"`
	OnTimeout  string `json:"onTimeout"`
}

// The two states that E2B's API knows.
const (
	stateRunning = "running"
	statePaused  = "paused"
)

// running and paused are the platform's states in which a sandbox is what E2B calls so. A stopped one is one that was paused without its memory. What is
// about to be paused is leaving, which E2B calls running: paused is said of what is durable.
var (
	running = append([]client.SandboxState{
		api.SandboxStateCreating, api.SandboxStateRunning, api.SandboxStateStarting, api.SandboxStateResuming, api.SandboxStateRestoring,
	}, leaving...)
	leaving = []client.SandboxState{api.SandboxStatePausing, api.SandboxStateSuspending, api.SandboxStateStopping}
	paused  = []client.SandboxState{api.SandboxStatePaused, api.SandboxStateSuspended, api.SandboxStateStopped}
)

// never is the end of a sandbox that has none, which can be made over the platform's own API.
var never = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

func render(s client.Sandbox) listed {
	l := listed{
		TemplateID: s.Template, Alias: s.Template, SandboxID: publicID(s.Id), ClientID: clientID, StartedAt: s.CreatedAt, EndAt: never,
		CPUCount: s.Vcpus, MemoryMB: s.MemoryMb, DiskSizeMB: s.DiskMb, State: stateRunning, EnvdVersion: envdVersion, Metadata: map[string]string{},
	}
	if s.Lifetime != nil && s.Lifetime.Deadline != nil {
		l.EndAt = *s.Lifetime.Deadline
	}
	if slices.Contains(paused, s.State) {
		l.State = statePaused
	}
	for name, value := range s.Metadata {
		if !strings.HasPrefix(name, reserved) {
			l.Metadata[name] = value
		}
	}
	return l
}

// living returns the sandbox of a call that is there for E2B's side: one that is deleted, failed or lost is not.
func (r *request) living(ctx context.Context) (client.Sandbox, error) {
	id, err := r.sandbox()
	if err != nil {
		return client.Sandbox{}, err
	}
	s, err := r.platform.GetSandbox(ctx, id)
	switch {
	case is(err, space.CodeNotFound), err == nil && s.State == api.SandboxStateDeleted:
		return s, noSandbox(r.PathValue("id"))
	case err != nil:
		return s, err
	case s.State == api.SandboxStateDeleting:
		return s, refuse(http.StatusConflict, "sandbox %s is being killed", publicID(id))
	case s.State == api.SandboxStateLost, s.State == api.SandboxStateFailed:
		return s, refuse(http.StatusNotFound, "sandbox %s is %s: %s", publicID(id), s.State, why(s))
	}
	return s, nil
}

// why is what the platform says of a sandbox that failed.
func why(s client.Sandbox) string {
	if s.Error != nil && s.Error.Detail != nil {
		return *s.Error.Detail
	}
	return "kill it, and create another one"
}

func (f *Facade) getSandbox(w http.ResponseWriter, r *request) error {
	s, err := r.living(r.Context())
	if err != nil {
		return notFoundWhileKilled(err, r)
	}
	out, err := f.open(r.Context(), r, s)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, detail{listed: render(s), EnvdAccessToken: out.EnvdAccessToken, Domain: domain, Lifecycle: &lifecycle{
		AutoResume: s.Metadata[markResume] == "true", OnTimeout: onTimeout(s),
	}})
	return nil
}

// notFoundWhileKilled is for calls that look at a sandbox: one that is being killed is none any more.
func notFoundWhileKilled(err error, r *request) error {
	if p := understand(r.Context(), err); p.Code == http.StatusConflict {
		return noSandbox(r.PathValue("id"))
	}
	return err
}

// killSandbox answers when nothing of the sandbox is left to be reached.
func (f *Facade) killSandbox(w http.ResponseWriter, r *request) error {
	id, err := r.sandbox()
	if err != nil {
		return err
	}
	s, err := r.platform.GetSandbox(r.Context(), id)
	if is(err, space.CodeNotFound) || err == nil && (s.State == api.SandboxStateDeleted || s.State == api.SandboxStateDeleting) {
		return noSandbox(r.PathValue("id"))
	}
	if err != nil {
		return err
	}
	if err := r.platform.DeleteSandbox(r.Context(), id); err != nil {
		return err
	}
	f.tokens.forget(id)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
