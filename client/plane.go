package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	gen "github.com/space-platform/space/api/gen/http"
)

// Plane is the data plane of one sandbox: its files, and what its sessions take and do. It's opened with a sandbox token, which opens nothing else.
type Plane struct {
	address string // of the edge, with /v1
	sandbox string
	token   string
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
	return &Plane{address: u.Scheme + "://" + u.Host + "/v1", sandbox: sandbox, token: token, http: c.http}, nil
}

// call is one request to the edge.
type call struct {
	method string
	path   string // below /v1
	query  url.Values
	header http.Header
	body   io.Reader
}

func (p *Plane) files(name string) string {
	return "/sandboxes/" + url.PathEscape(p.sandbox) + "/files" + name
}

// do sends a request and returns the answer of a success. Requests that change nothing or can be repeated are repeated while a part of the
// platform restarts.
func (p *Plane) do(ctx context.Context, c call) (*http.Response, error) {
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
	req.Header.Set("Authorization", "Bearer "+p.token)
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

// send sends a document and drops the answer's.
func (p *Plane) send(ctx context.Context, method, path string, in any) error {
	_, err := exchange[json.RawMessage](ctx, p, method, path, nil, in)
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
	if err := p.send(ctx, http.MethodPost, "/sessions/"+url.PathEscape(session)+"/signal", gen.SessionSignal{Signal: signal}); err != nil {
		return fmt.Errorf("send %s to session %s: %w", clip(signal), session, err)
	}
	return nil
}

// Resize changes the size of a session's terminal.
func (p *Plane) Resize(ctx context.Context, session string, rows, cols int) error {
	if err := p.send(ctx, http.MethodPost, "/sessions/"+url.PathEscape(session)+"/resize", gen.TerminalSize{Rows: rows, Cols: cols}); err != nil {
		return fmt.Errorf("resize the terminal of session %s: %w", session, err)
	}
	return nil
}
