package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	space "github.com/space-platform/space"
	contract "github.com/space-platform/space/api"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/operations"
	"github.com/space-platform/space/internal/control/reference"
	"github.com/space-platform/space/internal/public"
)

const (
	// maxConns bounds the connections of clients: twice the requests that are served at once.
	maxConns = 2 * maxInFlight
	// maxHeader bounds a request's header, in bytes. The largest that openapi.yaml allows lists sandboxes by 8 entries of metadata, each of 1100
	// characters of 12 bytes when they're percent-encoded: 106,000.
	maxHeader = 128 << 10
	// answerTimeout bounds a request from its header to the end of its answer: the longest wait, and time to write.
	answerTimeout = operations.MaxWait + 30*time.Second
)

// New returns the handler of the whole API.
func New(p Parts) http.Handler { return newHandler(p, bodyTimeout) }

func newHandler(p Parts, forBody time.Duration) http.Handler {
	mux := http.NewServeMux()
	strict := gen.NewStrictHandlerWithOptions(handlers{p}, nil, gen.StrictHTTPServerOptions{
		RequestErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) {
			fail(w, r, space.Errorf(space.CodeInvalid, "%w", err))
		},
		ResponseErrorHandlerFunc: fail,
	})
	gen.HandlerWithOptions(strict, gen.StdHTTPServerOptions{BaseRouter: mux, ErrorHandlerFunc: failParameter})
	mux.HandleFunc("GET /openapi.yaml", serveOpenAPI)
	mux.Handle("GET /docs", documentation())
	d := newDoor(mux, authenticator{store: p.Recognizer, bell: p.Bell}, forBody)
	return named(d, d.pattern)
}

// documentation serves the reference. It's the same for every handler, so it's made once; that is a second's work under the race detector.
var documentation = sync.OnceValue(func() http.Handler {
	return reference.Handler(contract.OpenAPI(), func(pattern string) space.Permission { return routes[pattern].needs })
})

// Serve serves the API on a listener until ctx ends, then lets open requests finish for a moment; those that wait for an operation are
// answered at once with what is known.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return serve(ctx, l, h, public.Usual())
}

func serve(ctx context.Context, l net.Listener, h http.Handler, t public.Times) error {
	return public.Server{Handler: h, Times: t, MaxConns: maxConns, MaxHeader: maxHeader, AnswerTimeout: answerTimeout}.Serve(ctx, l)
}

// serveOpenAPI serves the contract.
func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = io.WriteString(w, contract.OpenAPI()) // the client is gone
}

// failParameter answers for a parameter that the generated code couldn't read.
func failParameter(w http.ResponseWriter, r *http.Request, err error) {
	var format *gen.InvalidParamFormatError
	var many *gen.TooManyValuesForParamError
	var number *strconv.NumError
	switch {
	case errors.As(err, &format) && errors.As(format.Err, &number) && number.Func == "ParseBool":
		fail(w, r, space.FieldErrorf(format.ParamName, "is neither true nor false"))
	case errors.As(err, &format) && errors.As(format.Err, &number):
		fail(w, r, space.FieldErrorf(format.ParamName, "is not a whole number"))
	case errors.As(err, &format):
		fail(w, r, space.FieldErrorf(format.ParamName, "is not of the type that openapi.yaml gives it"))
	case errors.As(err, &many):
		fail(w, r, space.FieldErrorf(many.ParamName, "is given %d times: once is allowed", many.Count))
	default:
		fail(w, r, space.Errorf(space.CodeInvalid, "%w", err))
	}
}
