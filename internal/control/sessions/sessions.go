// Package sessions has what a project can do with sessions, and turns attachment tokens into routes for the edge. Creating a session
// writes its spec; the first attach fixes it to the execution that its sandbox has then, and from then on it belongs to that one. A client that attaches
// with the creation itself has that in one step.
package sessions

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/access"
	"github.com/space-platform/space/internal/control/program"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
	"github.com/space-platform/space/internal/control/token"
	"github.com/space-platform/space/internal/control/wake"
)

// Store keeps sessions and attachments.
type Store interface {
	CreateSession(ctx context.Context, n record.NewSession) (record.CreatedSession, error)
	Session(ctx context.Context, project, sandbox, id string) (record.Session, error)
	Sessions(ctx context.Context, sandbox string, after record.Position, limit int) ([]record.Session, error)
	CreateAttachment(ctx context.Context, session string, token record.TokenHash, life time.Duration, issuedBy string) error
	Attachment(ctx context.Context, token record.TokenHash) (record.Attachment, error)
	AttachmentTarget(ctx context.Context, token record.TokenHash) (record.Target, error)
	SandboxTokenTarget(ctx context.Context, token record.TokenHash, session string) (record.Target, error)
	FixSession(ctx context.Context, session, execution string) (fixed bool, err error)
	Made(ctx context.Context, project string, r record.Request) (string, error)
	Claim(ctx context.Context, project string, r record.Request, resource string) (at time.Time, err error)
}

// Sandboxes finds sandboxes.
type Sandboxes interface {
	access.Waker
	Get(ctx context.Context, project, id string) (record.Sandbox, error)
	Env(ctx context.Context, project, id string) (map[string]string, error)
}

// Templates finds templates.
type Templates interface {
	Get(ctx context.Context, project, ref string) (record.Template, error)
}

// Sessions are the sessions of all projects.
type Sessions struct {
	store     Store
	sandboxes Sandboxes
	templates Templates
	activity  access.Activity
	bell      *wake.Bell
	waits     access.Waits
	edgeURL   string
}

// New returns the sessions in a store. Clients attach at edgeURL. Whoever records something new of a sandbox rings its id.
func New(store Store, sandboxes Sandboxes, templates Templates, activity access.Activity, bell *wake.Bell, edgeURL string) *Sessions {
	return &Sessions{store: store, sandboxes: sandboxes, templates: templates, activity: activity, bell: bell, edgeURL: edgeURL}
}

// Caller is who asks: a project by means of an API key, or of a token of the sandbox that it asks for.
type Caller struct {
	Project string
	Key     string // the key or token itself, from which the first attachment token is derived; never stored
	Token   string // tok_…, of a sandbox token; empty: it's an API key
}

// Attachment is an issued token. It's shown once.
type Attachment struct {
	Token     string
	URL       string
	ExpiresAt time.Time
}

// Created is what a creation answers with.
type Created struct {
	Session    record.Session
	Attachment Attachment
	Target     *record.Target // what Resolve would say of it, if it was fixed to an execution with its creation
}

// Create writes a session and issues its first token. The same request with the same Idempotency-Key answers with the same ones.
func (s *Sessions) Create(ctx context.Context, by Caller, sandbox string, c Create, r record.Request) (Created, error) {
	return s.create(ctx, by, sandbox, c, r, false)
}

// CreateToAttach does the same for who attaches at once: in a sandbox that runs the session is fixed to the execution in the same commit.
func (s *Sessions) CreateToAttach(ctx context.Context, by Caller, sandbox string, c Create, r record.Request) (Created, error) {
	return s.create(ctx, by, sandbox, c, r, true)
}

func (s *Sessions) create(ctx context.Context, by Caller, sandbox string, c Create, r record.Request, attach bool) (Created, error) {
	spec, err := c.Spec()
	if err != nil {
		return Created{}, err
	}
	id, box, err := s.look(ctx, by.Project, sandbox, r)
	if err != nil {
		return Created{}, err
	}
	if id != "" {
		return s.again(ctx, by, sandbox, id)
	}
	return s.add(ctx, by, box, spec, r, attach)
}

// look reads the sandbox, and which session an earlier request with the same Idempotency-Key has made: at the same time, since a command is waited for.
func (s *Sessions) look(ctx context.Context, project, sandbox string, r record.Request) (session string, box record.Sandbox, err error) {
	var g errgroup.Group
	g.Go(func() (err error) {
		session, err = s.store.Made(ctx, project, r)
		return err
	})
	box, err = s.sandboxes.Get(ctx, project, sandbox)
	return session, box, cmp.Or(err, g.Wait())
}

// again answers for a session that was made before.
func (s *Sessions) again(ctx context.Context, by Caller, sandbox, id string) (Created, error) {
	session, err := s.store.Session(ctx, by.Project, sandbox, id)
	if err != nil {
		return Created{}, err
	}
	a, err := s.attachment(ctx, by, id, firstToken(by.Key, id))
	return Created{Session: session, Attachment: a}, err
}

func (s *Sessions) add(ctx context.Context, by Caller, box record.Sandbox, spec record.Spec, r record.Request, attach bool) (Created, error) {
	if err := s.ready(ctx, box); err != nil {
		return Created{}, err
	}
	spec, err := s.within(ctx, box, spec)
	if err != nil {
		return Created{}, err
	}
	id := space.NewID(space.PrefixSession)
	secret := firstToken(by.Key, id)
	n := record.NewSession{
		ID: id, Project: by.Project, Sandbox: box.ID, Spec: spec, Token: token.Hash(secret), TokenLife: tokenLife, IssuedBy: by.Token, Request: r,
	}
	if attach && sandboxes.State(box) == space.StateRunning {
		n.Execution = box.Execution.Route.Execution
	}
	c, err := s.store.CreateSession(ctx, n)
	switch {
	case err != nil:
		return Created{}, err
	case !c.Fresh:
		return s.again(ctx, by, box.ID, c.ID)
	}
	out := Created{
		Session:    record.Session{ID: id, Sandbox: box.ID, Spec: spec, CreatedAt: c.CreatedAt},
		Attachment: Attachment{Token: secret, URL: s.url(id), ExpiresAt: c.ExpiresAt},
	}
	if c.Fixed {
		out.Session.Execution, out.Session.StartedAt = n.Execution, c.CreatedAt
		out.Target = &record.Target{
			Session: out.Session, Sandbox: box.ID, Project: box.Project, AutoWake: box.Lifecycle.AutoWake, Desired: record.DesiredRunning, Execution: box.Execution,
		}
	}
	out.Session.Spec.Env, out.Session.Spec.Stdin = nil, nil // as it's read
	return out, nil
}

// within adds to a spec what its template and its sandbox set: the session's own is above the sandbox's, and that above the template's.
func (s *Sessions) within(ctx context.Context, box record.Sandbox, spec record.Spec) (record.Spec, error) {
	var g errgroup.Group
	var env map[string]string
	g.Go(func() (err error) {
		env, err = s.sandboxes.Env(ctx, box.Project, box.ID)
		return err
	})
	t, err := s.templates.Get(ctx, box.Project, box.Template)
	if err := cmp.Or(err, g.Wait()); err != nil {
		return record.Spec{}, err
	}
	spec.Env, err = program.MergeEnv("env", t.Defaults.Env, env, spec.Env)
	spec.User, spec.Cwd = cmp.Or(spec.User, t.Defaults.User), cmp.Or(spec.Cwd, t.Defaults.Workdir)
	return spec, err
}

// ready refuses a sandbox in which no session can start as it is. One that is woken for it needn't run yet: the attach waits for it.
func (s *Sessions) ready(ctx context.Context, box record.Sandbox) error {
	s.activity.Seen(box.ID, time.Now())
	switch sandboxes.State(box) {
	case space.StatePausing, space.StatePaused, space.StateSuspending, space.StateSuspended:
		return access.WakeUp(ctx, s.sandboxes, box)
	default:
		return checkSandbox(box)
	}
}

// checkSandbox refuses a sandbox in which no session can start as it is.
func checkSandbox(box record.Sandbox) error {
	switch state := sandboxes.State(box); state {
	case space.StateDeleting, space.StateDeleted:
		return space.Errorf(space.CodeConflict, "sandbox %s is deleted: create another one", box.ID)
	case space.StateFailed:
		return space.Errorf(space.CodeConflict, "sandbox %s failed to start: see its error, and create another one", box.ID)
	case space.StateLost:
		return space.Errorf(space.CodeExecutionLost, "sandbox %s is lost: %s", box.ID, sandboxes.WaysOut(box))
	case space.StateStopping, space.StateStopped:
		return space.Errorf(space.CodeConflict, "sandbox %s is %s: start it first", box.ID, state)
	}
	return nil
}

// List returns a page of the sessions of a project's sandbox behind a position, newest first, and the position behind the page; the zero one
// after the last page.
func (s *Sessions) List(ctx context.Context, project, sandbox string, after record.Position, limit int) ([]record.Session, record.Position, error) {
	if _, err := s.sandboxes.Get(ctx, project, sandbox); err != nil {
		return nil, record.Position{}, err
	}
	rows, err := s.store.Sessions(ctx, sandbox, after, limit+1)
	if err != nil || len(rows) <= limit {
		return rows, record.Position{}, err
	}
	last := rows[limit-1]
	return rows[:limit], record.Position{CreatedAt: last.CreatedAt, ID: last.ID}, nil
}

// Get returns a session of a project's sandbox.
func (s *Sessions) Get(ctx context.Context, project, sandbox, id string) (record.Session, error) {
	if space.CheckID(space.PrefixSandbox, sandbox) != nil || space.CheckID(space.PrefixSession, id) != nil {
		return record.Session{}, space.Errorf(space.CodeNotFound, "the session does not exist")
	}
	return s.store.Session(ctx, project, sandbox, id)
}

// Attach issues another token of a session, unless it would open nothing. The same request with the same Idempotency-Key answers with the same one.
func (s *Sessions) Attach(ctx context.Context, by Caller, sandbox, id string, r record.Request) (Attachment, error) {
	session, err := s.Get(ctx, by.Project, sandbox, id)
	if err != nil {
		return Attachment{}, err
	}
	box, err := s.sandboxes.Get(ctx, by.Project, sandbox)
	if err == nil && (session.Execution == "" || box.Desired == record.DesiredDeleted) { // else what is kept of it can be read
		err = s.ready(ctx, box)
	}
	if err != nil {
		return Attachment{}, err
	}
	if r.Key == "" {
		return s.issue(ctx, id, token.Attachment.Random(), by.Token)
	}
	if _, err := s.store.Claim(ctx, by.Project, r, id); err != nil {
		return Attachment{}, err
	}
	return s.attachment(ctx, by, id, furtherToken(by.Key, id, r.Key))
}

// attachment answers for a derived token. Another key of the project that repeats the request derives another token, which is issued.
func (s *Sessions) attachment(ctx context.Context, by Caller, session, secret string) (Attachment, error) {
	a, err := s.store.Attachment(ctx, token.Hash(secret))
	if space.CodeOf(err) == space.CodeNotFound {
		return s.issue(ctx, session, secret, by.Token)
	}
	return Attachment{Token: secret, URL: s.url(session), ExpiresAt: a.ExpiresAt}, err
}

func (s *Sessions) issue(ctx context.Context, session, secret, issuedBy string) (Attachment, error) {
	if err := s.store.CreateAttachment(ctx, session, token.Hash(secret), tokenLife, issuedBy); err != nil {
		return Attachment{}, err
	}
	a, err := s.store.Attachment(ctx, token.Hash(secret))
	return Attachment{Token: secret, URL: s.url(session), ExpiresAt: a.ExpiresAt}, err
}

func (s *Sessions) url(session string) string {
	return s.edgeURL + "/v1/sessions/" + session + "/attach"
}
