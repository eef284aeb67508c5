// Package edge is the data plane's public side: clients attach to sessions here, with the session's attachment token and nothing else.
//
// For each attach the edge asks the control plane what the token opens, opens one internal stream to the node, and re-emits its events as
// server-sent events. It keeps no output and never connects again by itself: whatever breaks on the way ends the client's connection with
// a typed event, and the client comes back with Last-Event-ID. The invariant is the cursor's (cursor.go): of the session's log, a client gets
// each byte once, in order, or is told that it's gone.
package edge

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	httpapi "github.com/space-platform/space/api/gen/http"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

// MaxResolveBytes bounds the control plane's answer: a session's specification, with 1 MiB of stdin.
const MaxResolveBytes = 2 << 20

// MaxEventBytes bounds one event of the internal stream: 32 KiB of output and its frame.
const MaxEventBytes = 64 << 10

// Limits of the public server.
const (
	maxHeaderBytes = 16 << 10
	maxConns       = 4096
	headerTimeout  = 10 * time.Second
	idleTimeout    = time.Minute
	answerTimeout  = 30 * time.Second // for answers that aren't streams; each event of a stream has its own
)

// requestID is the header under which a client finds the name that the log has for its request.
const requestID = telemetry.RequestHeader

// Resolver is the control plane's answer to what a token opens.
type Resolver interface {
	ResolveAttachment(context.Context, *connect.Request[controlv1.ResolveAttachmentRequest]) (*connect.Response[controlv1.ResolveAttachmentResponse], error)
}

// Attacher is the node's door.
type Attacher interface {
	Attach(context.Context, *connect.Request[sessionv1.AttachRequest]) (*connect.ServerStreamForClient[sessionv1.AttachResponse], error)
}

// Config is what an Edge works with. All fields are required.
type Config struct {
	Control Resolver
	Node    Attacher
	Version string // of the build, for /healthz
}

// Edge serves clients.
type Edge struct {
	control Resolver
	node    Attacher
	version string
	timing  timing
	slots   *slots
}

// timing is how long the edge waits for others.
type timing struct {
	resolve   time.Duration // for the control plane's answer
	start     time.Duration // for a session to start or a refusal, before it answers 200; longer than the node waits for a guest
	first     time.Duration // the same for a client that has seen it start: its session may have nothing to say
	keepAlive time.Duration // of silence, before a comment is sent
	slow      time.Duration // for a client to take an event, before it's told to come back later
	grace     time.Duration // beyond slow, for the event and the farewell to get through
}

var usualTiming = timing{resolve: 5 * time.Second, start: 20 * time.Second, first: time.Second, keepAlive: 15 * time.Second, slow: 20 * time.Second, grace: 5 * time.Second}

// New returns an Edge.
func New(c Config) *Edge {
	return &Edge{control: c.Control, node: c.Node, version: c.Version, timing: usualTiming, slots: newSlots()}
}

// Serve serves clients on l until ctx ends; streams then end with a typed event.
func (e *Edge) Serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{Handler: e.Handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, WriteTimeout: answerTimeout, MaxHeaderBytes: maxHeaderBytes}
	return peer.Drain(ctx, s, limitConns(l, maxConns))
}

// Handler returns the routes of the data plane. Whatever isn't one of them is answered with a problem.
func (e *Edge) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/sessions/{session}/attach", only(e.attach, http.MethodGet))
	mux.HandleFunc("/healthz", only(e.health, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/", notFound)
	newID := func() string { return space.NewID(space.PrefixRequest) }
	route := func(r *http.Request) string { _, pattern := mux.Handler(r); return pattern }
	return telemetry.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path.Clean(r.URL.Path) {
			notFound(w, r) // the mux would redirect
			return
		}
		mux.ServeHTTP(w, r)
	}), newID, route)
}

func (e *Edge) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	json.NewEncoder(w).Encode(httpapi.Health{Status: httpapi.HealthStatusOk, Version: e.version})
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeProblem(w, space.Errorf(space.CodeNotFound, "no such path on the data plane, which serves attach only; the management API has its own address"))
}
