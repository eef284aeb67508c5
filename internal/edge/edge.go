// Package edge is the data plane's public side: clients attach to sessions here, talk to them, and reach a sandbox's files, with the
// material that belongs to it and nothing else.
//
// For each request the edge asks the control plane what its material opens, opens one internal stream to the node, and re-emits what comes. It
// keeps nothing and never connects again by itself: whatever breaks on the way ends the client's connection with a typed event or, when bytes
// of a file are under way, by cutting it. The invariant of a session's output is the cursor's (cursor.go): of the session's log, a client gets
// each byte once, in order, or is told that it's gone.
//
// Clients may be slow, stand still or vanish. Each piece of a body, in either direction, has its own time to pass, and what is under way is
// counted by sandbox and session, so none can hold up another.
package edge

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	httpapi "github.com/space-platform/space/api/gen/http"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/public"
	"github.com/space-platform/space/internal/telemetry"
)

// MaxResolveBytes bounds the control plane's answer: a session's specification, with 1 MiB of stdin.
const MaxResolveBytes = 2 << 20

// MaxEventBytes bounds one event of the internal stream: 32 KiB of output and its frame.
const MaxEventBytes = 64 << 10

// Limits of the public server.
const (
	maxConns  = 4096     // above what may be under way at once, see slots.go
	maxHeader = 64 << 10 // bytes: a path of as many characters as openapi.yaml allows is answered as one that is too long in bytes
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

// Plane is what the control plane answers about everything else.
type Plane interface {
	ResolveSandbox(context.Context, *connect.Request[controlv1.ResolveSandboxRequest]) (*connect.Response[controlv1.ResolveSandboxResponse], error)
	ResolveSession(context.Context, *connect.Request[controlv1.ResolveSessionRequest]) (*connect.Response[controlv1.ResolveSessionResponse], error)
	FindEnded(context.Context, *connect.Request[controlv1.FindEndedRequest]) (*connect.Response[controlv1.FindEndedResponse], error)
	ResolveUpload(context.Context, *connect.Request[controlv1.ResolveUploadRequest]) (*connect.Response[controlv1.ResolveUploadResponse], error)
	CreateSession(context.Context, *connect.Request[controlv1.CreateSessionRequest]) (*connect.Response[controlv1.CreateSessionResponse], error)
}

// Config is what an Edge works with. All fields but Origins are required.
type Config struct {
	Control   Resolver
	Plane     Plane
	Node      Attacher
	Sandboxes Caller
	Uploads   Putter
	Version   string   // of the build, for /healthz
	Origins   []string // of pages whose scripts may use the data plane, for example https://app.example; "*" for any; none without
}

// Edge serves clients.
type Edge struct {
	control   Resolver
	plane     Plane
	node      Attacher
	sandboxes Caller
	uploads   Putter
	version   string
	origins   []string
	timing    timing

	attaches, calls, uploading *slots
	guards                     guards
	sockets                    sync.WaitGroup // WebSockets, which the HTTP server has let go of
}

// timing is how long the edge waits for others.
type timing struct {
	resolve   time.Duration // for the control plane's answer, which may wait for a sandbox to wake
	create    time.Duration // for the control plane to create a session
	start     time.Duration // for a session to start or a refusal, before it answers 200; longer than the node waits for a guest
	first     time.Duration // the same for a client that has seen it start: its session may have nothing to say
	keepAlive time.Duration // of silence, before a comment is sent
	slow      time.Duration // for a client to take an event, before it's told to come back later
	grace     time.Duration // beyond slow, for the event and the farewell to get through
	progress  time.Duration // for a client to take or bring a piece of a body
	look      time.Duration // between looks at whether the materials of what is open are still good, and for the control plane's answer
	leave     time.Duration // for a client to take its last event, or to be answered, when they aren't
	body      time.Duration // for a client to bring a body of JSON
	client    public.Times  // for what the listener expects of a client
}

var usualTiming = timing{
	resolve: 43 * time.Second, create: answerTime, start: 20 * time.Second, first: time.Second, keepAlive: 15 * time.Second,
	slow: 20 * time.Second, grace: 5 * time.Second, progress: 60 * time.Second,
	look: 2 * time.Second, leave: time.Second, // so what is open ends within 5 s of its material
	body: answerTime, client: public.Usual(),
}

// New returns an Edge.
func New(c Config) *Edge {
	return &Edge{
		control: c.Control, plane: c.Plane, node: c.Node, sandboxes: c.Sandboxes, uploads: c.Uploads, version: c.Version, origins: c.Origins, timing: usualTiming,
		attaches:  newSlots("attaches", "session", maxAttaches, maxAttachesPerProject, maxAttachesPerSession),
		calls:     newSlots("calls", "sandbox", maxCalls, maxCallsPerProject, maxCallsPerSandbox),
		uploading: newSlots("senders", "upload", maxUploads, maxUploadsPerProject, maxUploadsPerUpload),
	}
}

// Serve serves clients on l until ctx ends; streams then end with a typed event.
func (e *Edge) Serve(ctx context.Context, l net.Listener) error {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the last stream has ended
	var watch sync.WaitGroup
	watch.Go(func() { e.watchMaterials(watching) })
	defer watch.Wait()
	defer stop()
	defer e.sockets.Wait() // each ends by itself, within the time that a client has for its last event
	return public.Server{Handler: e.Handler(), Times: e.timing.client, MaxConns: maxConns, MaxHeader: maxHeader, AnswerTimeout: answerTime}.Serve(ctx, l)
}

// Handler returns the routes of the data plane. Whatever isn't one of them is answered with a problem.
func (e *Edge) Handler() http.Handler {
	mux := http.NewServeMux()
	methods := map[string]map[string]http.HandlerFunc{"/healthz": {http.MethodGet: e.health, http.MethodHead: e.health}}
	for pattern, o := range operations {
		method, path, _ := strings.Cut(pattern, " ")
		if methods[path] == nil {
			methods[path] = map[string]http.HandlerFunc{}
		}
		methods[path][method] = e.handle(o)
	}
	for path, handlers := range methods {
		mux.HandleFunc(path, e.only(handlers))
	}
	mux.HandleFunc("/", notFound)
	newID := func() string { return space.NewID(space.PrefixRequest) }
	route := func(r *http.Request) string { _, pattern := mux.Handler(r); return pattern }
	return telemetry.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.allowOrigin(w.Header(), r)
		if !strings.HasPrefix(r.URL.Path, "/") || r.URL.Path != path.Clean(r.URL.Path) {
			notFound(w, r) // the mux would redirect, and has an answer of its own for OPTIONS *
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
	writeProblem(w, space.Errorf(space.CodeNotFound, "no such path on the data plane; the management API has its own address"))
}
