package space

import (
	"errors"
	"fmt"
)

// PlacementKind says what an execution runs in. It's part of the route, and later of what is signed.
type PlacementKind string

// The kinds of placement.
const (
	PlacementNode PlacementKind = "node" // a machine whose spaced-host makes the enclosure
	PlacementPod  PlacementKind = "pod"  // a Kubernetes Pod, which is the enclosure
)

// Placement is where an execution runs.
type Placement struct {
	Kind   PlacementKind
	Node   string
	PodUID string
}

// Check refuses a placement that doesn't name its place completely: a pod without a UID, a node with one, no node.
func (p Placement) Check() error {
	switch {
	case p.Node == "":
		return errors.New("placement: no node")
	case p.Kind == PlacementNode && p.PodUID != "":
		return errors.New("placement: kind node with a pod UID")
	case p.Kind == PlacementPod && p.PodUID == "":
		return errors.New("placement: kind pod without a pod UID")
	case p.Kind != PlacementNode && p.Kind != PlacementPod:
		return fmt.Errorf("placement: unknown kind %q", Clip(string(p.Kind)))
	}
	return nil
}

// Route names one incarnation of one sandbox completely. Two routes are the same only if every field is: compare with ==.
type Route struct {
	Sandbox   string
	Execution string
	Epoch     uint64
	Placement Placement
}

// Check refuses a route with a missing or malformed field. Absent never means "any".
func (r Route) Check() error {
	if err := CheckID(PrefixSandbox, r.Sandbox); err != nil {
		return fmt.Errorf("route: %w", err)
	}
	if err := CheckID(PrefixExecution, r.Execution); err != nil {
		return fmt.Errorf("route: %w", err)
	}
	if r.Epoch == 0 {
		return errors.New("route: epoch 0")
	}
	if err := r.Placement.Check(); err != nil {
		return fmt.Errorf("route: %w", err)
	}
	return nil
}

// Match compares a caller's route with the local record of the same execution or sandbox. The error is
// CodeRouteStale when the sandbox is the same, so the caller may resolve again, and CodeRouteDenied when it isn't.
// It never reveals the other route.
func (r Route) Match(record Route) error {
	switch {
	case r == record:
		return nil
	case r.Sandbox == record.Sandbox:
		return Errorf(CodeRouteStale, "the request names another incarnation of sandbox %s than the one that runs here", r.Sandbox)
	default:
		return Errorf(CodeRouteDenied, "the request's route does not match the runtime record")
	}
}
