package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

// maxTokenFile bounds a file that holds a sandbox token.
const maxTokenFile = 4 << 10

// material is a sandbox token that opens a sandbox without an API key.
type material struct {
	tokenFile string // --token-file; SPACE_SANDBOX_TOKEN holds what the file does
	edgeURL   string // --edge-url, SPACE_EDGE_URL
}

// tokenFlags adds the flags of commands that work with a sandbox token alone.
func (n *connection) tokenFlags(c *cobra.Command) {
	c.Flags().StringVar(&n.token.tokenFile, "token-file", "", "file with a token of the sandbox, which is used instead of an API key: what 'space sandbox token create' prints, best with -o json (SPACE_SANDBOX_TOKEN holds the token itself)")
	c.Flags().StringVar(&n.token.edgeURL, "edge-url", "", "address of the data plane for a token that doesn't come with it (SPACE_EDGE_URL)")
}

// door is how a command gets into one sandbox: with an API key, or with a token of the sandbox alone.
type door struct {
	create func(context.Context, client.SessionCreate) (client.SessionCreated, error)
	find   func(ctx context.Context, session string) (client.SessionCreated, error) // what create returned, for whoever comes later
	attach func(context.Context, client.SessionCreated, ...client.AttachOption) iter.Seq2[client.Event, error]
	open   func(context.Context) (*client.Plane, error)

	sandbox func(context.Context) (client.Sandbox, error) // nil: a token doesn't open what the sandbox is
}

// byToken reports whether a token of the sandbox is used and no API key. The key of a flag wins over the token of the environment.
func (n *connection) byToken() bool {
	return n.token.tokenFile != "" || n.flags.APIKeyFile == "" && n.app.getenv("SPACE_SANDBOX_TOKEN") != ""
}

// door returns the way into a sandbox that the flags and the environment say.
func (n *connection) door(sandbox string) (door, error) {
	if n.byToken() {
		p, err := n.token.plane(n.app.getenv, sandbox)
		return tokenDoor(p), err
	}
	c, err := n.client()
	return keyDoor(c, sandbox), err
}

func keyDoor(c *client.Client, sandbox string) door {
	return door{
		create: func(ctx context.Context, in client.SessionCreate) (client.SessionCreated, error) {
			return c.CreateSession(ctx, sandbox, in)
		},
		find: func(ctx context.Context, session string) (client.SessionCreated, error) {
			s, err := c.GetSession(ctx, sandbox, session)
			if err != nil {
				return client.SessionCreated{}, err
			}
			a, err := c.CreateAttachment(ctx, sandbox, session)
			return client.SessionCreated{Session: s, Attachment: a}, err
		},
		attach: func(ctx context.Context, s client.SessionCreated, o ...client.AttachOption) iter.Seq2[client.Event, error] {
			return c.Attach(ctx, s.Session, s.Attachment, o...)
		},
		open:    func(ctx context.Context) (*client.Plane, error) { return c.Plane(ctx, sandbox) },
		sandbox: func(ctx context.Context) (client.Sandbox, error) { return c.GetSandbox(ctx, sandbox) },
	}
}

func tokenDoor(p *client.Plane) door {
	return door{
		create: func(ctx context.Context, in client.SessionCreate) (client.SessionCreated, error) {
			return p.CreateSession(ctx, in)
		},
		find: func(ctx context.Context, session string) (client.SessionCreated, error) {
			return findLive(ctx, p, session)
		},
		attach: func(ctx context.Context, s client.SessionCreated, o ...client.AttachOption) iter.Seq2[client.Event, error] {
			return p.Attach(ctx, s.Session.Id, o...)
		},
		open: func(context.Context) (*client.Plane, error) { return p, nil },
	}
}

// findLive looks for a session among those that were started. One that wasn't is found by who attaches.
func findLive(ctx context.Context, p *client.Plane, session string) (client.SessionCreated, error) {
	out := client.SessionCreated{Session: client.Session{Id: session}}
	list, err := p.LiveSessions(ctx)
	for _, s := range list {
		if s.Id == session && s.Tty {
			out.Session.Tty = &client.TerminalSize{}
		}
	}
	return out, err
}

// plane is the sandbox's data plane as the token opens it.
func (m material) plane(getenv func(string) string, sandbox string) (*client.Plane, error) {
	t, err := m.read(getenv)
	if err != nil {
		return nil, err
	}
	edge := cmp.Or(m.edgeURL, getenv("SPACE_EDGE_URL"), t.Url)
	if edge == "" {
		return nil, ErrorWithHint("not_configured", "set SPACE_EDGE_URL or --edge-url, or use the output of 'space sandbox token create -o json', which has it",
			"the sandbox token comes without the address of the data plane")
	}
	return client.NewPlane(edge, sandbox, t.Secret)
}

// read reads a token: the secret alone, or the document with which it was issued.
func (m material) read(getenv func(string) string) (t client.SandboxTokenCreated, err error) {
	source, text := "SPACE_SANDBOX_TOKEN", getenv("SPACE_SANDBOX_TOKEN")
	if m.tokenFile != "" {
		source = m.tokenFile
		if text, err = sandboxToken.read(m.tokenFile, maxTokenFile); err != nil {
			return t, err
		}
	}
	if text = strings.TrimSpace(text); !strings.HasPrefix(text, "{") {
		t.Secret = text
	} else if json.Unmarshal([]byte(text), &t) != nil {
		return t, ErrorWithHint("not_configured", sandboxToken.hint, "%s holds no sandbox token: it's neither one nor the document of one", source) // the text is a secret
	}
	t.Secret, err = sandboxToken.in(source, t.Secret)
	return t, err
}

// inside does something on the data plane of a sandbox, with a token that ends with it.
func (n *connection) inside(ctx context.Context, sandbox string, do func(*client.Plane) error) error {
	d, err := n.door(sandbox)
	if err != nil {
		return err
	}
	p, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer p.Close(ctx) // a token that can't be revoked ends by itself, after minutes
	return do(p)
}

// lazyPlane is a data plane that is opened when it's first needed. A failure isn't kept.
type lazyPlane struct {
	open func(context.Context) (*client.Plane, error)

	mu    sync.Mutex
	plane *client.Plane
}

func (o *lazyPlane) get(ctx context.Context) (*client.Plane, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.plane != nil {
		return o.plane, nil
	}
	var err error
	o.plane, err = o.open(ctx)
	return o.plane, err
}

// close ends the plane's tokens. One that can't be revoked ends by itself, after minutes.
func (o *lazyPlane) close(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.plane != nil {
		o.plane.Close(ctx)
	}
}
