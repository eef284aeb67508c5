package postgres

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

func shape(vcpus int32, memoryBytes, diskBytes int64) record.Shape {
	return record.Shape{VCPUs: uint32(vcpus), MemoryBytes: uint64(memoryBytes), DiskBytes: uint64(diskBytes)}
}

func route(sandbox, execution string, epoch int64, kind, node, podUID string) space.Route {
	return space.Route{Sandbox: sandbox, Execution: execution, Epoch: uint64(epoch), Placement: space.Placement{
		Kind: space.PlacementKind(kind), Node: node, PodUID: podUID,
	}}
}

// observed reads an execution's state; a node that has said nothing yet leaves it pending.
func observed(state *string) space.ExecutionState {
	if state == nil {
		return space.ExecutionPending
	}
	return space.ExecutionState(*state)
}

// text reads a column that may be null as an empty string.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// number reads a number that may be null.
func number(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
