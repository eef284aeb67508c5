package e2b

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"

	space "github.com/space-platform/space"
	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// newSandbox is what an SDK asks for. Of fields that were never served the presence is looked at.
type newSandbox struct {
	TemplateID      string `json:"templateID"`
	Timeout         *int   `json:"timeout"`
	AutoPause       bool   `json:"autoPause"`
	AutoPauseMemory *bool  `json:"autoPauseMemory"`
	AutoResume      *struct {
		Enabled bool `json:"enabled"`
	} `json:"autoResume"`
	Secure       *bool             `json:"secure"`
	Internet     *bool             `json:"allow_internet_access"`
	Network      map[string]any    `json:"network"`
	Metadata     map[string]string `json:"metadata"`
	EnvVars      map[string]string `json:"envVars"`
	MCP          map[string]any    `json:"mcp"`
	IAM          map[string]any    `json:"iam"`
	VolumeMounts []any             `json:"volumeMounts"`
}

// check refuses what the platform doesn't have, and what contradicts itself. Of the second generation of the API an SDK says only what its user does.
func (n *newSandbox) check(second bool) error {
	switch {
	case n.TemplateID == "":
		return refuse(http.StatusBadRequest, "templateID is required")
	case n.AutoPauseMemory != nil && !*n.AutoPauseMemory && (!n.AutoPause || n.resumes()):
		return refuse(http.StatusBadRequest, "autoPauseMemory false needs autoPause, and no autoResume")
	case second && n.Internet != nil && *n.Internet: // SDKs of the first generation always say so
		return unsupported("the internet in sandboxes (leave allow_internet_access out)")
	case len(n.Network) > 0:
		return unsupported("network options")
	case len(n.VolumeMounts) > 0:
		return unsupported("volumes")
	case len(n.IAM) > 0:
		return unsupported("iam tokens")
	}
	for name := range n.Metadata {
		if strings.HasPrefix(name, reserved) {
			return refuse(http.StatusBadRequest, "metadata: names that begin with %q are the platform's own", reserved)
		}
	}
	return nil
}

// onTimeout is what the sandbox is to become.
func (n *newSandbox) onTimeout() string {
	switch {
	case !n.AutoPause:
		return timeoutKill
	case n.AutoPauseMemory != nil && !*n.AutoPauseMemory:
		return timeoutStop
	}
	return timeoutPause
}

func (n *newSandbox) resumes() bool { return n.AutoResume != nil && n.AutoResume.Enabled }

func (f *Facade) createSandbox(w http.ResponseWriter, r *request) error {
	var in newSandbox
	if err := r.read(&in); err != nil {
		return err
	}
	if err := in.check(strings.HasPrefix(r.URL.Path, "/v2/")); err != nil {
		return err
	}
	timeout, err := checkTimeout(in.Timeout, 1)
	if err != nil {
		return err
	}
	key, err := r.repeatable()
	if err != nil {
		return err
	}
	out, err := f.create(r, in.order(timeout), key)
	if err != nil {
		return err
	}
	answer(w, http.StatusCreated, out)
	return nil
}

// repeatable is the key under which a client may send its order again, in the platform's form; "" without.
func (r *request) repeatable() (string, error) {
	key := r.Header.Get(space.IdempotencyKey)
	if key == "" {
		return "", nil
	}
	if err := space.CheckIdempotencyKey(key); err != nil {
		return "", refuse(http.StatusBadRequest, "%s", err)
	}
	sum := sha256.Sum256([]byte("e2b create\x00" + key))
	return "e2b-" + hex.EncodeToString(sum[:16]), nil
}

// create makes a sandbox and, while it comes up, its token. One that doesn't come up, or whose maker has gone meanwhile, is deleted: nobody has its id, unless
// the order can be sent again.
func (f *Facade) create(r *request, in client.SandboxCreate, key string) (sandbox, error) {
	op, err := r.begin(in, key)
	if err != nil {
		return sandbox{}, err
	}
	var out sandbox
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(func() (err error) { out, err = f.open(ctx, r, *op.Sandbox); return err })
	g.Go(func() error { _, err := r.platform.Await(ctx, op); return err })
	if err := g.Wait(); err != nil && key != "" {
		return sandbox{}, err
	} else if err != nil {
		ctx, cancel := detached(r.Context())
		defer cancel()
		if err := r.platform.DeleteSandbox(ctx, op.Sandbox.Id); err != nil {
			slog.WarnContext(ctx, "a sandbox that nobody has stays until its time is over", "sandbox", op.Sandbox.Id, "err", err)
		}
		return sandbox{}, err
	}
	return out, nil
}

// order is the platform's request for a new sandbox.
func (n *newSandbox) order(timeout int) client.SandboxCreate {
	metadata := client.Metadata{markTimeout: n.onTimeout()}
	for name, value := range n.Metadata {
		metadata[name] = value
	}
	resumes := n.resumes()
	lifecycle := &api.Lifecycle{AutoWake: &resumes, Idle: &api.Idle{Action: api.IdleActionNone}}
	if resumes {
		metadata[markResume], lifecycle.Idle = "true", idle(timeout)
	}
	env := client.Environment{"E2B_SANDBOX": "true", "E2B_TEMPLATE_ID": n.TemplateID}
	for name, value := range n.EnvVars {
		env[name] = value
	}
	return client.SandboxCreate{
		Template: templateName(n.TemplateID), Metadata: &metadata, Env: &env, Lifecycle: lifecycle,
		Lifetime: &client.Lifetime{Seconds: &timeout, OnExpiry: actions[n.onTimeout()]},
	}
}

// templateName is the platform's name of a template as SDKs write it: a namespace is the project's own, and the tag default is none.
func templateName(id string) string {
	if i := strings.LastIndexByte(id, '/'); i >= 0 {
		id = id[i+1:]
	}
	return strings.TrimSuffix(id, ":default")
}
