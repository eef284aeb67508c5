package peer

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
)

// Route reads a route off the wire. A missing one is an invalid one.
func Route(r *routev1.Route) (space.Route, error) {
	out := space.Route{Sandbox: r.GetSandbox(), Execution: r.GetExecution(), Epoch: r.GetEpoch(), Placement: space.Placement{
		Node: r.GetPlacement().GetNode(), PodUID: r.GetPlacement().GetPodUid(),
	}}
	switch r.GetPlacement().GetKind() {
	case routev1.PlacementKind_PLACEMENT_KIND_NODE:
		out.Placement.Kind = space.PlacementNode
	case routev1.PlacementKind_PLACEMENT_KIND_POD:
		out.Placement.Kind = space.PlacementPod
	}
	if err := out.Check(); err != nil {
		return space.Route{}, space.Errorf(space.CodeInvalid, "%w", err)
	}
	return out, nil
}

// RouteMessage writes a route for the wire.
func RouteMessage(r space.Route) *routev1.Route {
	kind := routev1.PlacementKind_PLACEMENT_KIND_NODE
	if r.Placement.Kind == space.PlacementPod {
		kind = routev1.PlacementKind_PLACEMENT_KIND_POD
	}
	return &routev1.Route{Sandbox: r.Sandbox, Execution: r.Execution, Epoch: r.Epoch, Placement: &routev1.Placement{
		Kind: kind, Node: r.Placement.Node, PodUid: r.Placement.PodUID,
	}}
}

// ErrorMessage writes an error for the wire, as Public has it.
func ErrorMessage(err error) *routev1.Error {
	if err == nil {
		return nil
	}
	e := Public(err)
	return &routev1.Error{Code: string(e.Code), Field: e.Field, Message: e.Message}
}

// MessageError reads an error off the wire; nil stays nil.
func MessageError(m *routev1.Error) error {
	if m == nil || m.Code == "" {
		return nil
	}
	return &space.Error{Code: space.Code(m.Code), Field: m.Field, Message: m.Message}
}

// ToConnect wraps an error so that it crosses RPC with its code.
func ToConnect(err error) error {
	if err == nil {
		return nil
	}
	e := Public(err)
	out := connect.NewError(connectCode(e.Code), e)
	if detail, derr := connect.NewErrorDetail(ErrorMessage(err)); derr == nil {
		out.AddDetail(detail)
	}
	return out
}

// FromConnect returns the space.Error that a peer sent. A transport's failure is unavailable, a deadline a timeout; that the caller itself gave
// up is returned as it is.
func FromConnect(err error) error {
	if err == nil {
		return nil
	}
	var ce *connect.Error
	if errors.As(err, &ce) {
		for _, d := range ce.Details() {
			if v, derr := d.Value(); derr == nil {
				if m, ok := v.(*routev1.Error); ok {
					return MessageError(m)
				}
			}
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case connect.CodeOf(err) == connect.CodeDeadlineExceeded:
		return space.Errorf(space.CodeTimeout, "a part of the platform took too long to answer; try again: %w", err)
	default: // a connection that was reset says "canceled" too
		return space.Errorf(space.CodeUnavailable, "a part of the platform can't be reached right now; try again: %w", err)
	}
}

// Public is an error as those may read it who called: this is the one place that decides that, for what crosses to another process and for
// what is kept to be told later. A cause that isn't a space.Error is no room, too little of something else, a timeout, cut off or internal, and its text
// stays here.
func Public(err error) *space.Error {
	var e *space.Error
	coded := errors.As(err, &e)
	switch {
	case coded && e.Code != space.CodeInternal:
		return e
	case NoRoom(err):
		full := space.VolumeFull(0, 0)
		full.Err = err
		return full
	case short(err):
		return &space.Error{Code: space.CodeUnavailable, Message: "a part of the platform is short of files, processes or memory right now; try again in a moment", Err: err}
	case coded:
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return &space.Error{Code: space.CodeTimeout, Message: "the call's deadline passed", Err: err}
	case errors.Is(err, context.Canceled):
		return &space.Error{Code: space.CodeUnavailable, Message: "the call was cut off", Err: err}
	default:
		return &space.Error{Code: space.CodeInternal, Message: "an internal error; the operator's log has the cause", Err: err}
	}
}

// NoRoom tells whether an error says that a disk of this machine is full.
func NoRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// short tells whether an error says that a process or this machine has too much open, or no memory, for the moment.
func short(err error) bool {
	for _, lack := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}

func connectCode(c space.Code) connect.Code {
	switch c {
	case space.CodeInvalid, space.CodeTooLarge, space.CodeShapeUnavailable, space.CodeGuest:
		return connect.CodeInvalidArgument
	case space.CodeUnauthenticated, space.CodeTokenExpired:
		return connect.CodeUnauthenticated
	case space.CodeForbidden, space.CodeRouteDenied:
		return connect.CodePermissionDenied
	case space.CodeNotFound:
		return connect.CodeNotFound
	case space.CodeConflict, space.CodeRouteStale, space.CodeExecutionLost, space.CodeSessionLost, space.CodeTemplateNotReady, space.CodeSnapshotUnusable, space.CodeIdempotencyMismatch:
		return connect.CodeFailedPrecondition
	case space.CodeQuotaExceeded, space.CodeCapacity:
		return connect.CodeResourceExhausted
	case space.CodeTimeout:
		return connect.CodeDeadlineExceeded
	case space.CodeUnavailable:
		return connect.CodeUnavailable
	default:
		return connect.CodeInternal
	}
}
