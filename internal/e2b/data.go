package e2b

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/gen/e2b/filesystem/filesystemconnect"
	"github.com/space-platform/space/api/gen/e2b/process/processconnect"
	"github.com/space-platform/space/client"
)

const (
	// agentPort is the port in a sandbox under which the SDKs know what Data serves.
	agentPort = "49983"
	// maxMessage bounds a message of an SDK, in bytes: input of 2 MiB in base64, and more than any path or command.
	maxMessage = 4 << 20
	// pieceTime is how long a piece of a body may take, in either direction.
	pieceTime = 60 * time.Second
)

// Headers that name a sandbox.
const (
	headerSandbox = "E2b-Sandbox-Id"
	headerPort    = "E2b-Sandbox-Port"
	headerToken   = "X-Access-Token"
)

// guest is a sandbox as one request reaches it: with a token, as a user.
type guest struct {
	access
	plane  *client.Plane
	user   string       // "" for the template's
	answer *pacedAnswer // of a request that is Connect's
}

type guestKey struct{}

// guestOf is the sandbox of a request.
func guestOf(ctx context.Context) guest { return ctx.Value(guestKey{}).(guest) }

// Data serves what SDKs do in sandboxes.
func (f *Facade) Data() http.Handler {
	mux := http.NewServeMux()
	options := connect.WithHandlerOptions(connect.WithReadMaxBytes(maxMessage), connect.WithCodec(jsonCodec{}), connect.WithCodec(protoCodec{}), connect.WithCompression("gzip", nil, nil))
	processes := processService{f: f}
	path, h := processconnect.NewProcessHandler(processes, options)
	mux.Handle(path, f.entered(h))
	mux.Handle(processconnect.ProcessStartProcedure, f.entered(connect.NewServerStreamHandler(processconnect.ProcessStartProcedure, processes.startStream, options)))
	mux.Handle(processconnect.ProcessConnectProcedure, f.entered(connect.NewServerStreamHandler(processconnect.ProcessConnectProcedure, processes.connectStream, options)))
	path, h = filesystemconnect.NewFilesystemHandler(filesystemService{f}, options)
	mux.Handle(path, f.entered(h))
	mux.Handle("GET /health", f.entered(http.HandlerFunc(f.health)))
	mux.HandleFunc("GET /files", f.getFile)
	mux.HandleFunc("POST /files", f.postFiles)
	for _, pattern := range []string{"POST /files/compose", "GET /metrics", "GET /envs"} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			fail(w, r, unsupported(r.Method+" "+r.URL.Path+" of a sandbox's agent"))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, refuse(http.StatusNotFound, "%s %s: a sandbox has no such call", r.Method, space.Clip(r.URL.Path)))
	})
	inner := paced(crossOrigin(routed(mux)))
	return observe(recovered(inner), func(r *http.Request) string { _, pattern := mux.Handler(r); return pattern })
}

// crossOrigin lets scripts of web pages read answers, as E2B's agent does: what opens a sandbox is a token that the page must have, no cookie.
func crossOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Expose-Headers", "*")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS")
			h.Set("Access-Control-Allow-Headers", "*, "+r.Header.Get("Access-Control-Request-Headers"))
			h.Set("Access-Control-Max-Age", "7200")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// routed refuses what is for another port of a sandbox, whatever its path, and half a name.
func routed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := named(r); err != nil {
			fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// entered gives a request its sandbox, by the token that it brings.
func (f *Facade) entered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g, err := f.enter(r)
		if err != nil {
			fail(w, r, err)
			return
		}
		g.answer, _ = w.(*pacedAnswer)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), guestKey{}, g)))
	})
}

// hostName is how a Host names a port of a sandbox.
var hostName = regexp.MustCompile(`^(\d{1,5})-([a-z0-9]+)\.`)

// named is the sandbox that a request's headers or its Host name; empty if neither does.
func named(r *http.Request) (sandbox string, err error) {
	sandbox, port := r.Header.Get(headerSandbox), r.Header.Get(headerPort)
	if (sandbox == "") != (port == "") {
		return "", refuse(http.StatusBadRequest, "%s and %s are given together or not at all", headerSandbox, headerPort)
	}
	if m := hostName.FindStringSubmatch(r.Host); sandbox == "" && m != nil {
		sandbox, port = m[2], m[1]
	}
	if port != "" && port != agentPort {
		return "", unsupported("ports of a sandbox (" + space.Clip(port) + ")")
	}
	if sandbox != "" {
		sandbox, err = sandboxID(sandbox)
	}
	if err != nil {
		return "", gone(r.Header.Get(headerSandbox))
	}
	return sandbox, nil
}

// enter finds whom a request's token opens.
func (f *Facade) enter(r *http.Request) (guest, error) {
	sandbox, err := named(r)
	if err != nil {
		return guest{}, err
	}
	a, ok := parseAccess(r.Header.Get(headerToken))
	switch {
	case r.Header.Get(headerToken) == "":
		return guest{}, refuse(http.StatusUnauthorized, "the sandbox's access token is missing: every sandbox of this platform has one")
	case !ok, sandbox != "" && sandbox != a.sandbox:
		return guest{}, errForeign
	}
	return f.guest(a, userOf(r))
}

func (f *Facade) guest(a access, user string) (guest, error) {
	p, err := f.plane(a)
	if err != nil {
		return guest{}, err
	}
	return guest{access: a, plane: p, user: user}, nil
}

// userOf is the user of the guest for whom a request is. It's no authentication: the password is anything.
func userOf(r *http.Request) string {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Basic ")
	if !ok {
		return ""
	}
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	user, _, _ := strings.Cut(string(plain), ":")
	return user
}

// goneError is the answer for a sandbox that isn't running: it drives the SDKs' is_running, and their timeouts.
type goneError struct {
	SandboxID string `json:"sandboxId"`
	Message   string `json:"message"`
	Code      int    `json:"code"`
}

// Error implements error.
func (g *goneError) Error() string { return g.Message }

func gone(sandbox string) error {
	return &goneError{space.Clip(sandbox), "The sandbox was not found", http.StatusBadGateway}
}

// errForeign is the answer to a token that opens another sandbox, or none.
var errForeign = refuse(http.StatusUnauthorized, "the access token isn't that of this sandbox")

// settled makes of a refusal by the platform what it means for the sandbox: a conflict may be one with a file, or say that the sandbox isn't
// running; then it's gone. What is forbidden may be a file, or the whole sandbox; then the token is another's.
func (g guest) settled(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case is(err, space.CodeExecutionLost, space.CodeRouteStale):
		return gone(publicID(g.sandbox))
	case is(err, space.CodeForbidden):
		if is(g.answers(ctx), space.CodeForbidden) { // nothing at all is open to it, so that it's no file's mode
			return errForeign
		}
	case is(err, space.CodeConflict):
		if other := g.answers(ctx); is(other, space.CodeConflict, space.CodeExecutionLost) {
			return gone(publicID(g.sandbox))
		}
	}
	return err
}

// answers asks the sandbox for what every one has: what is kept of its sessions can be read without it.
func (g guest) answers(ctx context.Context) error {
	_, err := g.plane.StatFile(ctx, "/")
	return err
}

func (f *Facade) health(w http.ResponseWriter, r *http.Request) {
	g := guestOf(r.Context())
	if err := g.answers(r.Context()); err != nil {
		if is(err, space.CodeConflict, space.CodeNotFound) {
			err = gone(publicID(g.sandbox))
		}
		g.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// fail answers a request that isn't Connect's.
func (g guest) fail(w http.ResponseWriter, r *http.Request, err error) {
	fail(w, r, g.settled(r.Context(), err))
}

// codes are Connect's for the platform's. SDKs read unavailable as the end of the sandbox: of a platform that can't be reached right now it isn't said.
var codes = map[space.Code]connect.Code{
	space.CodeInvalid: connect.CodeInvalidArgument, space.CodeUnauthenticated: connect.CodeUnauthenticated, space.CodeTokenExpired: connect.CodeUnauthenticated,
	space.CodeForbidden: connect.CodePermissionDenied, space.CodeRouteDenied: connect.CodePermissionDenied, space.CodeNotFound: connect.CodeNotFound,
	space.CodeConflict: connect.CodeInvalidArgument, space.CodeTooLarge: connect.CodeInvalidArgument, space.CodeRange: connect.CodeInvalidArgument,
	space.CodeQuotaExceeded: connect.CodeResourceExhausted, space.CodeCapacity: connect.CodeResourceExhausted, space.CodeSessionLost: connect.CodeNotFound,
	space.CodeExecutionLost: connect.CodeUnavailable, space.CodeRouteStale: connect.CodeUnavailable, space.CodeUnavailable: connect.CodeInternal,
	space.CodeTimeout: connect.CodeDeadlineExceeded, space.CodeGuest: connect.CodeInternal, space.CodeInternal: connect.CodeInternal,
}

// refusal makes Connect's error of any.
func (g guest) refusal(ctx context.Context, err error) error {
	err = g.settled(ctx, err)
	var already *connect.Error
	var lost *goneError
	var e *client.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &already):
		return already
	case err == errForeign:
		return connect.NewError(connect.CodeUnauthenticated, errors.New(understand(ctx, err).Message))
	case errors.As(err, &lost):
		return connect.NewError(connect.CodeUnavailable, lost)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, ctx.Err())
	case ctx.Err() != nil:
		return connect.NewError(connect.CodeCanceled, ctx.Err())
	case !errors.As(err, &e):
		return connect.NewError(connect.CodeInternal, errors.New(understand(ctx, err).Message))
	}
	code, ok := codes[space.Code(e.Code)]
	if !ok {
		code = connect.CodeInternal
	}
	if space.Code(e.Code) == space.CodeInvalid && e.Field == "user" {
		code = connect.CodeUnauthenticated
	}
	return connect.NewError(code, errors.New(e.Detail))
}

// paced gives every piece of a body its time, in both directions, and streams their flush.
func paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		r.Body = &pacedBody{r.Body, c}
		next.ServeHTTP(&pacedAnswer{ResponseWriter: w, conn: c}, r)
	})
}

type pacedBody struct {
	io.ReadCloser
	conn *http.ResponseController
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	_ = b.conn.SetReadDeadline(time.Now().Add(pieceTime)) // fails on a connection that is gone
	return b.ReadCloser.Read(p)
}

type pacedAnswer struct {
	http.ResponseWriter
	conn *http.ResponseController
	ends atomic.Bool // what is written now is sent with the answer's end
}

// Write implements io.Writer.
func (a *pacedAnswer) Write(p []byte) (int, error) {
	_ = a.conn.SetWriteDeadline(time.Now().Add(pieceTime))
	return a.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (a *pacedAnswer) Flush() {
	if a.ends.Load() {
		return
	}
	_ = a.conn.SetWriteDeadline(time.Now().Add(pieceTime))
	_ = a.conn.Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (a *pacedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
