package manager

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

// wanted is what the control plane ordered last.
type wanted string

const (
	wantRunning wanted = "running"
	wantStopped wanted = "stopped"
	wantRemoved wanted = "removed"
)

// record is what the node knows of one execution. It's a value: changes make a new one, see decide.go.
type record struct {
	Route   space.Route     `json:"route"`
	Order   message         `json:"order,omitempty"` // an EnsureExecution; empty if the host had the execution and nobody here knew of it
	Wanted  wanted          `json:"wanted"`
	Grace   time.Duration   `json:"grace,omitempty"`   // with wantStopped: what the processes have between SIGTERM and SIGKILL
	Removed bool            `json:"removed,omitempty"` // a tombstone: the host has nothing left of it
	Cause   telemetry.Cause `json:"cause,omitzero"`    // what asked for what is wanted

	State space.ExecutionState `json:"state"`
	Err   *problem             `json:"error,omitempty"` // with failed and lost
	Since time.Time            `json:"since"`           // when State was entered
}

// passing says that a record needn't outlive this process: the execution is wanted and hasn't come to anything. See the package comment.
func (r record) passing() bool {
	return r.Wanted == wantRunning && r.State == space.ExecutionPending
}

// problem is a space.Error on disk.
type problem struct {
	Code    space.Code `json:"code"`
	Field   string     `json:"field,omitempty"`
	Message string     `json:"message"`
}

func problemOf(err error) *problem {
	m := peer.ErrorMessage(err)
	if m == nil {
		return nil
	}
	return &problem{Code: space.Code(m.Code), Field: m.Field, Message: m.Message}
}

func (p *problem) err() error {
	if p == nil {
		return nil
	}
	return &space.Error{Code: p.Code, Field: p.Field, Message: p.Message}
}

// report is the record as the control plane reads it.
func (r record) report() *controlv1.ExecutionReport {
	return &controlv1.ExecutionReport{
		Route: peer.RouteMessage(r.Route), State: string(r.State), Error: peer.ErrorMessage(r.Err.err()), Since: timestamppb.New(r.Since),
	}
}

// equal reports whether two records are the same in every field.
func (r record) equal(o record) bool {
	a, b := r.Err, o.Err
	if (a == nil) != (b == nil) || a != nil && *a != *b || !r.Since.Equal(o.Since) {
		return false
	}
	r.Err, o.Err, r.Since, o.Since = nil, nil, time.Time{}, time.Time{}
	return r == o
}
