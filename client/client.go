package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"time"

	api "github.com/space-platform/space/api/gen/http"
)

// The documents of the API, generated from its contract.
type (
	Sandbox        = api.Sandbox
	SandboxCreate  = api.SandboxCreate
	SandboxState   = api.SandboxState
	Session        = api.Session
	SessionCreate  = api.SessionCreate
	SessionCreated = api.SessionCreated
	Attachment     = api.Attachment
	TerminalSize   = api.TerminalSize
	Operation      = api.Operation
	Template       = api.Template
	Node           = api.Node
	Health         = api.Health
)

// headerTimeout bounds how long a server may take to begin an answer; it's longer than the longest wait we ask for.
const headerTimeout = awaitEach + 30*time.Second

// Client is one platform, seen with one API key.
type Client struct {
	api  *api.Client
	http *http.Client // without the key: the data plane takes tokens
}

// Option changes how a Client is made.
type Option func(*Client)

// WithHTTPClient sets the client that carries all requests: for proxies, certificates and tests. It must not have a Timeout, which would
// cut streams; contexts bound requests.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// New returns a client for the platform at an address such as http://127.0.0.1:7700. It sends nothing yet.
func New(address, key string, options ...Option) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("platform address: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("platform address %q: want http://HOST:PORT or https://…", address)
	}
	c := &Client{http: defaultHTTPClient()}
	for _, o := range options {
		o(c)
	}
	c.api, err = api.NewClient(address, api.WithHTTPClient(repeater{next: c.http}), api.WithRequestEditorFn(authorize(key)))
	if err != nil {
		return nil, fmt.Errorf("platform address: %w", err)
	}
	return c, nil
}

// idleConns are the connections to one platform that are kept for the next requests: who has many goroutines make requests needn't connect for each.
const idleConns = 64

// defaultHTTPClient follows no redirects: our servers send none, and a key must not travel to wherever one points.
func defaultHTTPClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = headerTimeout
	t.MaxIdleConnsPerHost = idleConns
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func authorize(key string) api.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		return nil
	}
}

// idempotencyKey makes a create repeatable: same key, same answer.
func idempotencyKey() *string {
	k := rand.Text()
	return &k
}

// Health asks whether the control plane serves. It needs no key.
func (c *Client) Health(ctx context.Context) (Health, error) {
	return decode[Health](c.api.GetHealth(ctx))
}

// Node returns what the machine is that runs the sandboxes.
func (c *Client) Node(ctx context.Context) (Node, error) {
	return decode[Node](c.api.GetNode(ctx))
}
