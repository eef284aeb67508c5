package edge

import (
	"cmp"
	"context"
	"net/http"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/peer"
)

// target is the execution that a request may reach. It's resolved for each request anew and kept for no other.
type target struct {
	edge    *Edge
	route   *routev1.Route
	project string // whose sandbox it is
	user    string // who acts in it: the one that the request names or the template's default, "" if there is none
	resolve func(context.Context) (*target, error)
	leave   func() // gives the slots back
}

// enterSandbox resolves a request about a sandbox and takes its slots. The target must be left.
func (e *Edge) enterSandbox(r *request) (*target, error) {
	return e.enter(r, func(ctx context.Context) (*target, error) { return e.resolveSandbox(ctx, r) })
}

// enterSession does the same for a request about a session that was started.
func (e *Edge) enterSession(r *request) (*target, error) {
	return e.enter(r, func(ctx context.Context) (*target, error) { return e.resolveSession(ctx, r) })
}

func (e *Edge) enter(r *request, resolve func(context.Context) (*target, error)) (*target, error) {
	release, err := e.calls.take()
	if err != nil {
		return nil, err
	}
	t, err := resolve(r.Context())
	if err != nil {
		release()
		return nil, err
	}
	leave, err := e.calls.join(t.route.GetSandbox(), t.project)
	if err != nil {
		release()
		return nil, err
	}
	t.edge, t.resolve = e, resolve
	t.leave = func() { leave(); release() }
	return t, nil
}

// begin enters the request's sandbox and opens an action there; close leaves it again. The first answer is nil if it succeeded without one.
func (e *Edge) begin(r *request, a *sandboxv1.Action) (*call, *sandboxv1.CallResponse, error) {
	t, err := e.enterSandbox(r)
	if err != nil {
		return nil, nil, err
	}
	c, first, err := t.open(r.Context(), a)
	if err != nil {
		t.leave()
		return nil, nil, err
	}
	c.leave = t.leave
	return c, first, nil
}

// do does an action in the request's sandbox whose answer is at most one message, and returns that.
func (e *Edge) do(r *request, a *sandboxv1.Action) (*sandboxv1.CallResponse, error) {
	t, err := e.enterSandbox(r)
	if err != nil {
		return nil, err
	}
	defer t.leave()
	return t.do(r.Context(), a)
}

func (e *Edge) resolveSandbox(ctx context.Context, r *request) (*target, error) {
	user, err := r.query.user()
	if err != nil {
		return nil, err
	}
	m := &controlv1.ResolveSandboxRequest{Sandbox: r.sandbox, Token: r.token, Kept: r.kept}
	if r.material == signedURL {
		signed, err := r.signed()
		if err != nil {
			return nil, err
		}
		m.Signed = signed
	}
	ctx, cancel := context.WithTimeout(ctx, e.timing.resolve)
	defer cancel()
	resp, err := e.plane.ResolveSandbox(ctx, connect.NewRequest(m))
	if err != nil {
		return nil, inside(err)
	}
	route, err := peer.Route(resp.Msg.GetRoute())
	if err != nil {
		return nil, space.Errorf(space.CodeInternal, "the control plane resolved sandbox %s to an invalid route: %w", r.sandbox, err)
	}
	if route.Sandbox != r.sandbox {
		return nil, space.Errorf(space.CodeForbidden, "the token opens another sandbox")
	}
	return &target{route: resp.Msg.GetRoute(), project: resp.Msg.GetProject(), user: cmp.Or(user, resp.Msg.GetDefaultUser())}, nil
}

func (e *Edge) resolveSession(ctx context.Context, r *request) (*target, error) {
	sleep, err := r.query.letsSleep()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.timing.resolve)
	defer cancel()
	resp, err := e.plane.ResolveSession(ctx, connect.NewRequest(&controlv1.ResolveSessionRequest{Session: r.session, Token: r.token, LetSleep: sleep}))
	if err != nil {
		return nil, inside(err)
	}
	if _, err := peer.Route(resp.Msg.GetRoute()); err != nil {
		return nil, space.Errorf(space.CodeInternal, "the control plane resolved session %s to an invalid route: %w", r.session, err)
	}
	if resp.Msg.GetSession() != r.session {
		return nil, space.Errorf(space.CodeForbidden, "the token opens another session")
	}
	return &target{route: resp.Msg.GetRoute(), project: resp.Msg.GetProject()}, nil
}

// signed is the signed URL that a request came by: its path, user and time, and what it may do, are what was signed.
func (r *request) signed() (*controlv1.SignedURL, error) {
	path, err := r.query.path()
	if err != nil {
		return nil, err
	}
	user, err := r.query.user()
	if err != nil {
		return nil, err
	}
	expires, err := r.query.expires()
	if err != nil {
		return nil, err
	}
	if s := r.query["signature"]; s == "" || len(s) > maxSignature {
		return nil, space.FieldErrorf("signature", "has %d bytes, want 1 to %d", len(s), maxSignature)
	}
	does := "read"
	if r.Method == http.MethodPut {
		does = "write"
	}
	return &controlv1.SignedURL{Path: path, Operation: does, User: user, ExpiresUnix: expires, Signature: r.query["signature"]}, nil
}
