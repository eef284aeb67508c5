package sandboxes

import (
	"slices"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// Filter is which sandboxes a client wants to see.
type Filter struct {
	Metadata map[string]string // all of these entries; at most maxFilters
	States   []space.State     // any of these; none: all but deleted
}

// maxFilters bounds the entries of metadata that are asked for.
const maxFilters = 8

func (f Filter) check() error {
	if len(f.Metadata) > maxFilters {
		return space.FieldErrorf("metadata", "asks for %d entries: at most %d are allowed", len(f.Metadata), maxFilters)
	}
	for _, s := range f.States {
		if !s.Known() {
			return space.FieldErrorf("state", "%q is not a state of a sandbox", space.Clip(string(s)))
		}
	}
	return checkMetadata(f.Metadata)
}

// record is the filter in the store's words.
func (f Filter) record() record.SandboxFilter {
	out := record.SandboxFilter{Metadata: orEmpty(f.Metadata), AnyState: len(f.States) == 0}
	if out.AnyState {
		return out
	}
	for _, c := range conditions() {
		box := record.Sandbox{Desired: c.Desired, Deleted: c.Deleted, Execution: record.Execution{Observed: c.Observed, Disk: c.Disk}}
		if c.Loaded {
			box.Execution.Replaces = "another one"
		}
		if c.Disk != "" {
			box.Execution.DiskOf = "another one"
		}
		if slices.Contains(f.States, State(box)) {
			out.Conditions = append(out.Conditions, c)
		}
	}
	return out
}

// conditions are all that a state can be made of.
func conditions() []record.SandboxCondition {
	var out []record.SandboxCondition
	for _, desired := range record.DesiredStates() {
		for _, observed := range space.ExecutionStates() {
			for _, deleted := range []bool{false, true} {
				for _, disk := range append([]space.ExecutionState{""}, space.ExecutionStates()...) {
					out = append(out, record.SandboxCondition{Desired: desired, Observed: observed, Disk: disk, Deleted: deleted})
				}
				out = append(out, record.SandboxCondition{Desired: desired, Observed: observed, Loaded: true, Deleted: deleted})
			}
		}
	}
	return out
}
