package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
)

// Plane is the data plane of one sandbox: its sessions and its files. It's opened with a sandbox token, which opens nothing else: one that was
// given (NewPlane), or short-lived ones that it issues as it needs them (Client.Plane). It may be used by any number of goroutines.
type Plane struct {
	address string // of the edge, with /v1
	sandbox string
	pass    *pass
	http    *http.Client
}

// NewPlane returns the data plane of a sandbox at an edge's address, such as http://127.0.0.1:7701, with a sandbox token. It sends nothing yet.
func NewPlane(address, sandbox, token string, options ...Option) (*Plane, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("edge address %q: want http://HOST:PORT or https://…", clip(address))
	}
	c := &Client{http: defaultHTTPClient()}
	for _, o := range options {
		o(c)
	}
	return &Plane{address: u.Scheme + "://" + u.Host + "/v1", sandbox: sandbox, pass: givenPass(token), http: c.http}, nil
}

// Plane issues a token for a sandbox and returns its data plane. The token lives for minutes and is replaced when it's needed longer; Close
// revokes what is left.
func (c *Client) Plane(ctx context.Context, sandbox string) (*Plane, error) {
	issue := func(ctx context.Context, life time.Duration) (SandboxTokenCreated, error) {
		return c.CreateSandboxToken(ctx, sandbox, "client", life)
	}
	revoke := func(ctx context.Context, token string) error { return c.RevokeSandboxToken(ctx, sandbox, token) }
	own := &pass{issue: issue, revoke: revoke, turn: make(chan struct{}, 1)}
	first, err := own.first(ctx)
	if err != nil {
		return nil, err
	}
	p, err := NewPlane(first.Url, sandbox, "", WithHTTPClient(c.http))
	if err != nil {
		return nil, errors.Join(err, own.close(ctx))
	}
	p.pass = own
	return p, nil
}

// Close revokes the tokens that the plane has issued, and so ends what is open by them. It does so even if ctx has ended, within 10 s. One
// that was given to NewPlane is left alone. A plane that is used after all issues another token.
func (p *Plane) Close(ctx context.Context) error {
	if err := p.pass.close(ctx); err != nil {
		return fmt.Errorf("close the data plane of %s: %w", p.sandbox, err)
	}
	return nil
}

// call is one request to the edge.
type call struct {
	method string
	path   string // below /v1
	query  url.Values
	header http.Header
	body   io.Reader
}

// rewind brings a body that is in memory back to its beginning.
func (c call) rewind() bool {
	b, ok := c.body.(*bytes.Reader)
	if ok {
		b.Seek(0, io.SeekStart)
	}
	return ok
}

func (p *Plane) files(name string) string {
	return "/sandboxes/" + url.PathEscape(p.sandbox) + "/files" + name
}

// do sends a request and returns the answer of a success. Requests that change nothing or can be repeated are repeated while a part of the
// platform restarts, and those without a long body once with another token, if there is one.
func (p *Plane) do(ctx context.Context, c call) (*http.Response, error) {
	resp, err := p.once(ctx, c)
	renew := p.pass.renewal()
	if renew == nil || !refusedToken(err) || c.body != nil && !c.rewind() {
		return resp, err
	}
	if failure := renew(ctx); failure != nil {
		return nil, failure
	}
	return p.once(ctx, c)
}

func (p *Plane) once(ctx context.Context, c call) (*http.Response, error) {
	token, err := p.pass.show(ctx)
	if err != nil {
		return nil, err
	}
	return p.doWith(ctx, token, c)
}

func (p *Plane) doWith(ctx context.Context, token string, c call) (*http.Response, error) {
	target := p.address + c.path
	if len(c.query) > 0 {
		target += "?" + c.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, c.method, target, c.body)
	if err != nil {
		return nil, err
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := repeater{next: p.http}.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, attachErrorMax))
	if err != nil {
		return nil, err
	}
	return nil, refusal(resp, b)
}

// send posts a document and drops the answer's.
func (p *Plane) send(ctx context.Context, path string, query url.Values, in any) error {
	_, err := exchange[json.RawMessage](ctx, p, http.MethodPost, path, query, in)
	return err
}

// exchange sends a document, if there is one, and reads the answer's.
func exchange[T any](ctx context.Context, p *Plane, method, path string, query url.Values, in any) (T, error) {
	var out T
	c := call{method: method, path: path, query: query}
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return out, err
		}
		c.body, c.header = bytes.NewReader(b), http.Header{"Content-Type": {"application/json"}}
	}
	resp, err := p.do(ctx, c)
	if err != nil {
		return out, err
	}
	if resp.StatusCode == http.StatusNoContent {
		resp.Body.Close()
		return out, nil
	}
	return decode[T](resp, nil)
}

// CreateSession creates a session, one command in the sandbox. Its first Attach starts it.
func (p *Plane) CreateSession(ctx context.Context, in SessionCreate) (SessionCreated, error) {
	b, err := json.Marshal(in)
	if err != nil {
		return SessionCreated{}, err
	}
	out, err := decode[SessionCreated](p.do(ctx, call{method: http.MethodPost, path: "/sandboxes/" + url.PathEscape(p.sandbox) + "/sessions",
		header: http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {*idempotencyKey()}}, body: bytes.NewReader(b)}))
	if err != nil {
		return SessionCreated{}, fmt.Errorf("create session in %s: %w", p.sandbox, err)
	}
	return out, nil
}

// LiveSession is a session that was started in the sandbox's machine, with how it is.
type LiveSession = gen.LiveSession

// LiveSessions lists the sessions that were started in the sandbox's machine, newest first.
func (p *Plane) LiveSessions(ctx context.Context) ([]LiveSession, error) {
	out, err := exchange[gen.LiveSessions](ctx, p, http.MethodGet, "/sandboxes/"+url.PathEscape(p.sandbox)+"/live-sessions", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("list the sessions of %s: %w", p.sandbox, err)
	}
	return out.Items, nil
}

// Signal sends a signal, such as SIGINT, to a session's process group.
func (p *Plane) Signal(ctx context.Context, session, signal string) error {
	return p.signal(ctx, session, signal, nil)
}

// SignalAwake does the same unless the sandbox is paused or suspended: then it isn't woken, as it is by Signal, and the error is a timeout.
func (p *Plane) SignalAwake(ctx context.Context, session, signal string) error {
	return p.signal(ctx, session, signal, letSleep)
}

func (p *Plane) signal(ctx context.Context, session, signal string, query url.Values) error {
	if err := p.send(ctx, "/sessions/"+url.PathEscape(session)+"/signal", query, gen.SessionSignal{Signal: signal}); err != nil {
		return fmt.Errorf("send %s to session %s: %w", clip(signal), session, err)
	}
	return nil
}

// Resize changes the size of a session's terminal. A sandbox that is paused or suspended isn't woken by that: the error is a timeout.
func (p *Plane) Resize(ctx context.Context, session string, rows, cols int) error {
	if err := p.send(ctx, "/sessions/"+url.PathEscape(session)+"/resize", letSleep, gen.TerminalSize{Rows: rows, Cols: cols}); err != nil {
		return fmt.Errorf("resize the terminal of session %s: %w", session, err)
	}
	return nil
}
