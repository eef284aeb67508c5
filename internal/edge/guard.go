package edge

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
)

// maxLook bounds the materials of one question to the control plane.
const maxLook = 256

// Why a request ends that its material has opened.
var (
	errRevoked = space.Errorf(space.CodeUnauthenticated, "what this was opened with was revoked")
	errExpired = space.Errorf(space.CodeTokenExpired, "the token has expired: create another one")
)

// lasts is how long an operation may go on.
type lasts int

const (
	briefly   lasts = iota // it has an end of its own, soon
	transfers              // as long as bytes of a file pass: unless the material is revoked, not if it expires meanwhile
	streams                // without an end of its own: as long as the material is good
)

// shown is a material that a client has shown: a token, or a signed URL.
type shown struct {
	token, sandbox string // the sandbox of a signed URL only, as are the next
	path, does     string
	user           string
	expires        int64
	signature      string
}

func showing(r *request) (shown, error) {
	if r.material != signedURL {
		return shown{token: r.token}, nil
	}
	u, err := r.signed()
	return shown{sandbox: r.sandbox, path: u.GetPath(), does: u.GetOperation(), user: u.GetUser(), expires: u.GetExpiresUnix(), signature: u.GetSignature()}, err
}

func (s shown) message() *controlv1.Material {
	if s.token != "" {
		return &controlv1.Material{Token: s.token}
	}
	return &controlv1.Material{Sandbox: s.sandbox, Signed: &controlv1.SignedURL{Path: s.path, Operation: s.does, User: s.user, ExpiresUnix: s.expires, Signature: s.signature}}
}

// guards are what is open, by the material that has opened it. All of it is asked about together, once in timing.look.
type guards struct {
	mu   sync.Mutex
	open map[shown]map[*guarded]bool
}

// guarded is something that is open.
type guarded struct {
	lasts lasts
	end   context.CancelCauseFunc
}

// guard returns a context that ends when the material of a request does, in the way that the operation lasts. What the client hasn't brought or
// taken is cut off soon after. Call stop.
func (e *Edge) guard(w *answer, r *request, l lasts) (ctx context.Context, stop func(), err error) {
	s, err := showing(r)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	g := &guarded{l, cancel}
	e.guards.add(s, g)
	cut := context.AfterFunc(ctx, func() {
		if ended(ctx) != nil {
			w.flow.cut(time.Now().Add(e.timing.leave))
		}
	})
	return ctx, func() { e.guards.remove(s, g); cut(); w.flow.release(); cancel(nil) }, nil
}

func (s *guards) add(by shown, g *guarded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[shown]map[*guarded]bool{}
	}
	if s.open[by] == nil {
		s.open[by] = map[*guarded]bool{}
	}
	s.open[by][g] = true
}

func (s *guards) remove(by shown, g *guarded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open[by], g)
	if len(s.open[by]) == 0 {
		delete(s.open, by)
	}
}

func (s *guards) shown() []shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// end ends what a material has opened.
func (s *guards) end(by shown, revoked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.open[by] {
		switch {
		case revoked:
			g.end(errRevoked)
		case g.lasts == streams:
			g.end(errExpired)
		}
	}
}

// watchMaterials ends what is open when its material does, until ctx ends.
func (e *Edge) watchMaterials(ctx context.Context) {
	look := time.NewTicker(e.timing.look)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			e.lookAtMaterials(ctx)
		}
	}
}

// lookAtMaterials asks the control plane about all that is open. While that doesn't answer, nothing new is known.
func (e *Edge) lookAtMaterials(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.timing.look)
	defer cancel()
	for some := range slices.Chunk(e.guards.shown(), maxLook) {
		m := &controlv1.FindEndedRequest{}
		for _, s := range some {
			m.Materials = append(m.Materials, s.message())
		}
		resp, err := e.plane.FindEnded(ctx, connect.NewRequest(m))
		if err != nil {
			continue
		}
		for _, x := range resp.Msg.GetEnded() {
			if int(x.GetIndex()) < len(some) {
				e.guards.end(some[x.GetIndex()], x.GetRevoked())
			}
		}
	}
}

// ended is the error of a context that ended with its material, or nil.
func ended(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errRevoked) || errors.Is(err, errExpired) {
		return err
	}
	return nil
}

// reasonOver is why a stream ends whose context is over.
func reasonOver(ctx context.Context) string {
	if ended(ctx) != nil {
		return reasonTokenEnded
	}
	return reasonShuttingDown
}
