// Package api is node-api, the node's door: the only process of a node that others reach. It holds no records and no privilege.
//
// The edge attaches to sessions, calls on sandboxes and puts uploads through it, and sbx-manager speaks with the control plane through it. It lets each of the two call its own
// verbs only, bounds what they send, and refuses whatever doesn't name this node; what a route means here is for sbx-manager to say.
// Until the node has a certificate it listens on a unix socket whose peers are checked.
package api

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	"github.com/space-platform/space/api/gen/sandbox/v1/sandboxv1connect"
	"github.com/space-platform/space/api/gen/session/v1/sessionv1connect"
	"github.com/space-platform/space/api/gen/upload/v1/uploadv1connect"
	"github.com/space-platform/space/internal/node/relay"
	"github.com/space-platform/space/internal/peer"
)

// MaxReportBytes bounds a Synchronize request and its answer.
const MaxReportBytes = 16 << 20

// Limits of what is under way at once.
const (
	maxStreams = 1024
	maxCalls   = 1024
	maxPuts    = 32
	maxReports = 4 // sbx-manager has one; another may still be ending
)

// Synchronizer is the control plane.
type Synchronizer interface {
	Synchronize(context.Context, *connect.Request[controlv1.SynchronizeRequest]) (*connect.Response[controlv1.SynchronizeResponse], error)
}

// Config is what the door works with. All fields are required.
type Config struct {
	Node       string // the node's name, as routes have it
	EdgeUID    int    // may attach, call and put
	ManagerUID int    // may synchronize
	Control    Synchronizer
	Manager    relay.Attacher // sbx-manager
	Sandboxes  relay.Caller   // sbx-manager
	Uploads    relay.Putter   // sbx-manager
}

// NewHandler returns the door's handler. It must be served by peer.Serve, which tells it who calls.
func NewHandler(c Config) http.Handler {
	d := &door{
		node: c.Node, control: c.Control, manager: c.Manager, sandboxes: c.Sandboxes, uploads: c.Uploads,
		streams: make(chan struct{}, maxStreams), calls: make(chan struct{}, maxCalls), puts: make(chan struct{}, maxPuts), reports: make(chan struct{}, maxReports),
	}
	mux := http.NewServeMux()
	path, h := sessionv1connect.NewSessionServiceHandler(d, peer.HandlerOptions(relay.MaxRequestBytes))
	mux.Handle(path, only(c.EdgeUID, h))
	path, h = sandboxv1connect.NewSandboxServiceHandler(d, peer.HandlerOptions(relay.MaxCallBytes))
	mux.Handle(path, only(c.EdgeUID, h))
	path, h = uploadv1connect.NewUploadServiceHandler(d, peer.HandlerOptions(relay.MaxCallBytes))
	mux.Handle(path, only(c.EdgeUID, h))
	path, h = controlv1connect.NewControlServiceHandler(d, peer.HandlerOptions(MaxReportBytes))
	mux.Handle(path, only(c.ManagerUID, h))
	return mux
}

// door implements the services that node-api serves.
type door struct {
	controlv1connect.UnimplementedControlServiceHandler // only one of its verbs is a node's

	node      string
	control   Synchronizer
	manager   relay.Attacher
	sandboxes relay.Caller
	uploads   relay.Putter

	streams, calls, puts, reports chan struct{} // a slot for each that is under way
}

// only lets requests of one uid through. A service belongs to one peer; a peer that asks for the other's is refused before its
// message is read.
func only(uid int, h http.Handler) http.Handler {
	refusal := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got, ok := peer.UID(r.Context()); ok && got == uid {
			h.ServeHTTP(w, r)
			return
		}
		err := peer.ToConnect(space.Errorf(space.CodeForbidden, "this peer may not call %s", space.Clip(r.URL.Path)))
		if werr := refusal.Write(w, r, err); werr != nil && !errors.Is(werr, context.Canceled) {
			http.Error(w, http.StatusText(http.StatusForbidden), http.StatusForbidden)
		}
	})
}

// slot takes one of a limited number; the returned function gives it back.
func slot(slots chan struct{}, what string) (release func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	default:
		return nil, space.Errorf(space.CodeUnavailable, "the node has %d %s under way already; try again", cap(slots), what)
	}
}
