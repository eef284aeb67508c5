package api

import (
	"context"
	"time"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/access"
	"github.com/space-platform/space/internal/control/events"
	"github.com/space-platform/space/internal/control/keys"
	"github.com/space-platform/space/internal/control/operations"
	"github.com/space-platform/space/internal/control/projects"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/retention"
	"github.com/space-platform/space/internal/control/sandboxes"
	"github.com/space-platform/space/internal/control/sessions"
	"github.com/space-platform/space/internal/control/templates"
	"github.com/space-platform/space/internal/control/uploads"
	"github.com/space-platform/space/internal/control/users"
	"github.com/space-platform/space/internal/control/wake"
	"github.com/space-platform/space/internal/envelope"
)

// healthTimeout bounds the database's answer to a health check.
const healthTimeout = 2 * time.Second

// Database says whether it's there, and knows the node.
type Database interface {
	Ping(ctx context.Context) error
	Node(ctx context.Context, name string) (record.Node, error)
}

// Meter knows what executions take.
type Meter interface {
	Figures(route space.Route) (newest record.Figures, cpuPercent float64, ok bool)
}

// Parts is what the API is made of.
type Parts struct {
	Recognizer keys.Recognizer
	Bell       *wake.Bell
	Keys       *keys.Keys
	Projects   *projects.Projects
	Users      *users.Users
	Events     *events.Events
	Sandboxes  *sandboxes.Sandboxes
	Sessions   *sessions.Sessions
	Access     *access.Access
	Garbage    *retention.Collector
	Meter      Meter
	Templates  *templates.Templates
	Uploads    *uploads.Uploads
	Operations *operations.Operations
	Database   Database
	Cursors    *envelope.Key // seals where a list goes on
	Node       string        // the name of the one node
	Version    string        // of this build
}

// handlers has a method for each operation of openapi.yaml. They decode, call a use case and encode.
type handlers struct{ Parts }

var _ gen.StrictServerInterface = handlers{}

// GetHealth tells whether the control plane reaches its database.
func (h handlers) GetHealth(ctx context.Context, _ gen.GetHealthRequestObject) (gen.GetHealthResponseObject, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if err := h.Database.Ping(ctx); err != nil {
		return nil, &space.Error{Code: space.CodeUnavailable, Message: "the database can't be reached", Err: err}
	}
	return gen.GetHealth200JSONResponse{Status: gen.HealthStatusOk, Version: h.Version}, nil
}

// GetReadiness tells whether sandboxes can be created now: the database answers and a node is connected whose volume isn't full.
func (h handlers) GetReadiness(ctx context.Context, _ gen.GetReadinessRequestObject) (gen.GetReadinessResponseObject, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	n, err := h.Database.Node(ctx, h.Node)
	switch {
	case space.CodeOf(err) == space.CodeNotFound || err == nil && !n.Connected:
		return nil, space.Errorf(space.CodeUnavailable, "no node is connected")
	case err != nil:
		return nil, &space.Error{Code: space.CodeUnavailable, Message: "the database can't be reached", Err: err}
	}
	advice := n.Facts.Advice()
	if n.Facts.DiskPressure == record.DiskRefusing {
		return nil, space.Errorf(space.CodeCapacity, "%s", advice)
	}
	out := gen.GetReadiness200JSONResponse{Status: gen.HealthStatusOk, Version: h.Version}
	if advice != "" {
		out.Warnings = &[]string{advice}
	}
	return out, nil
}

// GetNode tells what the machine is. One that has never called is shown without facts.
func (h handlers) GetNode(ctx context.Context, _ gen.GetNodeRequestObject) (gen.GetNodeResponseObject, error) {
	n, err := h.Database.Node(ctx, h.Node)
	if space.CodeOf(err) == space.CodeNotFound {
		return gen.GetNode200JSONResponse{Name: h.Node}, nil
	}
	if err != nil {
		return nil, err
	}
	return gen.GetNode200JSONResponse(renderNode(n)), nil
}

func renderNode(n record.Node) gen.Node {
	f := n.Facts
	cpus, memory, promised := int(f.CPUs), int(f.MemoryBytes/record.MiB), int(f.SandboxMemory()/record.MiB)
	out := gen.Node{
		Name: n.Name, Driver: f.Driver, Acceleration: f.Acceleration, TenantBoundary: f.TenantBoundary(), Connected: n.Connected, Vcpus: &cpus, MemoryMb: &memory,
		SandboxMemoryMb: &promised, Advice: notEmpty(f.Advice()), Version: notEmpty(f.Version),
	}
	if f.OverheadBytes > 0 {
		overhead, reserved := int(f.OverheadBytes/record.MiB), int(f.ReservedBytes/record.MiB)
		out.OverheadMb, out.ReservedMemoryMb = &overhead, &reserved
	}
	if f.MemoryAvailableBytes > 0 {
		available := int(f.MemoryAvailableBytes / record.MiB)
		out.MemoryAvailableMb = &available
	}
	if f.DiskBytes > 0 {
		disk, free := int(f.DiskBytes/record.MiB), int(f.DiskFreeBytes/record.MiB)
		out.DiskMb, out.DiskFreeMb = &disk, &free
	}
	if f.DiskPressure != record.DiskFine {
		p := gen.NodeDiskPressure(f.DiskPressure)
		out.DiskPressure = &p
	}
	return out
}
