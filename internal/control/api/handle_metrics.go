package api

import (
	"context"
	"math"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
)

// GetSandboxMetrics returns the newest figures of a sandbox that runs.
func (h handlers) GetSandboxMetrics(ctx context.Context, r gen.GetSandboxMetricsRequestObject) (gen.GetSandboxMetricsResponseObject, error) {
	s, err := h.Sandboxes.Get(ctx, caller(ctx).Project, r.Sandbox)
	if err != nil {
		return nil, err
	}
	f, percent, ok := h.Meter.Figures(s.Execution.Route)
	switch state := sandboxes.State(s); {
	case state != space.StateRunning && state != space.StateStopping:
		return nil, space.Errorf(space.CodeConflict, "the sandbox is %s: only one that runs has figures", state)
	case !ok:
		return nil, space.Errorf(space.CodeUnavailable, "the node hasn't told the sandbox's figures yet: try again in a few seconds")
	}
	return gen.GetSandboxMetrics200JSONResponse(renderFigures(f, percent)), nil
}

func renderFigures(f record.Figures, percent float64) gen.Metrics {
	received, sent := int64(f.ReceivedBytes), int64(f.SentBytes)
	out := gen.Metrics{
		At: f.At.UTC(), CpuSeconds: f.CPUSeconds, MemoryBytes: int64(f.MemoryBytes), DiskBytes: int64(f.DiskBytes),
		NetworkReceivedBytes: &received, NetworkSentBytes: &sent,
	}
	if !math.IsNaN(percent) {
		out.CpuPercent = &percent
	}
	if g := f.Guest; g != nil {
		out.Guest = &gen.GuestMetrics{
			MemoryTotalBytes: int64(g.MemoryTotalBytes), MemoryUsedBytes: int64(g.MemoryUsedBytes),
			DiskTotalBytes: int64(g.DiskTotalBytes), DiskUsedBytes: int64(g.DiskUsedBytes), Processes: int(g.Processes), Load: &g.Load,
		}
	}
	return out
}
