package e2b

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/public"
	"github.com/space-platform/space/internal/telemetry"
)

const (
	// maxConns bounds the connections of each port. Python's SDK opens one for each command that runs.
	maxConns = 4096
	// maxHeader bounds a request's header, in bytes: a path of 4095 bytes, percent-encoded, and what SDKs add.
	maxHeader = 64 << 10
	// answerTimeout bounds an answer that isn't a stream, from the request's header on: the longest wait for a lifecycle change, and time to write.
	answerTimeout = 6 * time.Minute
	// idleTime is how long a connection is kept without a request. The SDKs keep theirs for 300 s, and must not find one closed.
	idleTime = 10*time.Minute + 20*time.Second
	// upstreamBuffer is what is read at once of a connection to the platform, in bytes: an event of output in base64 in one go.
	upstreamBuffer = 64 << 10
	// upstreamConns are the idle connections to the API, and to the edge, that are kept.
	upstreamConns = 512
)

// Config says where the platform is.
type Config struct {
	API      string       // address of the public API, such as http://127.0.0.1:7700
	Edge     string       // address of the edge
	Endpoint string       // how clients reach Control: upload links begin with it
	Memory   string       // file of what outlives this process, see memory.go; "": nothing does
	HTTP     *http.Client // carries requests to the platform; nil: one made for many at once
}

// Facade serves E2B's SDKs.
type Facade struct {
	config    Config
	tokens    tokens
	processes processes
	watchers  *watchers
	builds    builds
	memory    *memory        // nil: nothing is written down
	turns     [64]sync.Mutex // held by who puts a sandbox's deadline off, by the sandbox
}

// New returns a facade of a platform. It sends nothing yet. Close it.
func New(c Config) (*Facade, error) {
	if c.HTTP == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConns, t.MaxIdleConnsPerHost, t.Proxy = 2*upstreamConns, upstreamConns, nil
		t.ReadBufferSize = upstreamBuffer
		c.HTTP = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	f := &Facade{config: c, watchers: newWatchers()}
	if c.Memory == "" {
		return f, nil
	}
	return f, f.remember()
}

// remember takes up what earlier lives have noted, and notes from now on.
func (f *Facade) remember() error {
	err := recall(f.config.Memory, func(n note) {
		f.tokens.recall(n)
		f.builds.recall(n)
	})
	if err != nil {
		return err
	}
	f.memory = &memory{path: f.config.Memory, current: func() []note { return append(f.tokens.notes(), f.builds.notes()...) }}
	f.tokens.keep, f.builds.keep = f.memory.add, f.memory.add
	return f.memory.begin()
}

// Close ends what New has begun.
func (f *Facade) Close() error {
	if f.memory == nil {
		return nil
	}
	return f.memory.close()
}

// Serve serves both ports until ctx ends or one of them fails.
func (f *Facade) Serve(ctx context.Context, control, data net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	for l, h := range map[net.Listener]http.Handler{control: f.Control(), data: f.Data()} {
		g.Go(func() error {
			t := public.Usual()
			t.Idle = idleTime
			return public.Server{Handler: h, Times: t, MaxConns: maxConns, MaxHeader: maxHeader, AnswerTimeout: answerTimeout}.Serve(ctx, l)
		})
	}
	return g.Wait()
}

// Reaches checks that the public API answers.
func (f *Facade) Reaches(ctx context.Context) error {
	c, err := f.platform("")
	if err != nil {
		return err
	}
	_, err = c.Health(ctx)
	return err
}

// platform is the public API as an API key sees it.
func (f *Facade) platform(key string) (*client.Client, error) {
	return client.New(f.config.API, key, client.WithHTTPClient(f.config.HTTP))
}

// plane is the data plane of a sandbox as one of its tokens sees it.
func (f *Facade) plane(a access) (*client.Plane, error) {
	carrier := *f.config.HTTP
	carrier.Transport = opened{cmp.Or(carrier.Transport, http.DefaultTransport), &f.tokens, a}
	p, err := client.NewPlane(f.config.Edge, a.sandbox, a.secret, client.WithHTTPClient(&carrier))
	if err != nil {
		return nil, fmt.Errorf("reach the edge: %w", err)
	}
	return p, nil
}

// opened remembers a token that the platform has served: anybody can bring another one, which is to take no place. One that it refuses is forgotten.
type opened struct {
	http.RoundTripper
	tokens *tokens
	access access
}

// RoundTrip implements http.RoundTripper.
func (o opened) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.RoundTripper.RoundTrip(r)
	switch {
	case err != nil:
	case resp.StatusCode < http.StatusBadRequest:
		o.tokens.remember(o.access)
	case resp.StatusCode == http.StatusUnauthorized:
		o.tokens.refused(o.access)
	}
	return resp, err
}

// observe makes a handler the outermost one: each request gets an id, is counted, traced and logged by its route.
func observe(next http.Handler, route func(*http.Request) string) http.Handler {
	return telemetry.HTTP(next, func() string { return space.NewID(space.PrefixRequest) }, route)
}
