package manager

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/peer"
)

// wanted is what the control plane ordered last.
type wanted string

const (
	wantRunning wanted = "running"
	wantRemoved wanted = "removed"
)

// record is what the node knows of one execution. It's a value: changes make a new one, see decide.go.
type record struct {
	Route    space.Route `json:"route"`
	Template string      `json:"template,omitempty"` // empty if the host had the execution and nobody here knew of it
	Shape    shape       `json:"shape"`
	Wanted   wanted      `json:"wanted"`
	Removed  bool        `json:"removed,omitempty"` // a tombstone: the host has nothing left of it

	State space.ExecutionState `json:"state"`
	Err   *problem             `json:"error,omitempty"` // with failed and lost
	Since time.Time            `json:"since"`           // when State was entered
}

// shape is the size of the execution's machine, in bytes where it isn't a count.
type shape struct {
	VCPUs       uint32 `json:"vcpus"`
	MemoryBytes uint64 `json:"memory_bytes"`
	DiskBytes   uint64 `json:"disk_bytes"`
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

func shapeOf(s *controlv1.Shape) shape {
	return shape{VCPUs: s.GetVcpus(), MemoryBytes: s.GetMemoryBytes(), DiskBytes: s.GetDiskBytes()}
}

func (s shape) message() *controlv1.Shape {
	return &controlv1.Shape{Vcpus: s.VCPUs, MemoryBytes: s.MemoryBytes, DiskBytes: s.DiskBytes}
}

// report is the record as the control plane reads it.
func (r record) report() *controlv1.ExecutionReport {
	return &controlv1.ExecutionReport{
		Route: peer.RouteMessage(r.Route), State: string(r.State), Error: peer.ErrorMessage(r.Err.err()), Since: timestamppb.New(r.Since),
	}
}

// ensure is the record as the host reads it.
func (r record) ensure() *controlv1.EnsureExecution {
	return &controlv1.EnsureExecution{Route: peer.RouteMessage(r.Route), Template: r.Template, Shape: r.Shape.message()}
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
