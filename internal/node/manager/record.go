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
	wantRunning   wanted = "running"
	wantPaused    wanted = "paused"
	wantSuspended wanted = "suspended"
	wantStopped   wanted = "stopped"
	wantRemoved   wanted = "removed"
)

// record is what the node knows of one execution. It's a value: changes make a new one, see decide.go.
type record struct {
	Route   space.Route     `json:"route"`
	Order   message         `json:"order,omitempty"` // an EnsureExecution; empty if the host had the execution and nobody here knew of it
	Wanted  wanted          `json:"wanted"`
	Grace   time.Duration   `json:"grace,omitempty"`   // with wantStopped: what the processes have between SIGTERM and SIGKILL
	Removed bool            `json:"removed,omitempty"` // a tombstone: the host has nothing left of it
	Cause   telemetry.Cause `json:"cause,omitzero"`    // what asked for what is wanted

	Operation string   `json:"operation,omitempty"` // with wantPaused, and with wantRunning of one that is to go on: named if it's refused
	Snapshot  string   `json:"snapshot,omitempty"`  // with wantSuspended: the one to be made
	Refused   string   `json:"refused,omitempty"`   // the operation that was refused last
	Refusal   *problem `json:"refusal,omitempty"`   // why

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
		Refused: r.Refused, Refusal: peer.ErrorMessage(r.Refusal.err()),
	}
}

// equal reports whether two records are the same in every field.
func (r record) equal(o record) bool {
	if !r.Err.equal(o.Err) || !r.Refusal.equal(o.Refusal) || !r.Since.Equal(o.Since) {
		return false
	}
	r.Err, o.Err, r.Refusal, o.Refusal, r.Since, o.Since = nil, nil, nil, nil, time.Time{}, time.Time{}
	return r == o
}

// equal reports whether two problems are the same; nil is none.
func (p *problem) equal(o *problem) bool {
	if p == nil || o == nil {
		return p == o
	}
	return *p == *o
}
