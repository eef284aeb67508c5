package service

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/host/execution"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/template"
	"github.com/space-platform/space/internal/peer"
)

func executionReport(r execution.Report) *controlv1.ExecutionReport {
	return &controlv1.ExecutionReport{
		Route: peer.RouteMessage(r.Route), State: string(r.State), Error: peer.ErrorMessage(r.Err), Since: timestamppb.New(r.Since), Usage: r.Usage,
	}
}

func templateReport(r template.Report) *controlv1.TemplateReport {
	out := &controlv1.TemplateReport{
		Template: r.Template, State: r.State, Error: peer.ErrorMessage(r.Err), Progress: r.Progress, FailedStep: int32(r.FailedStep),
	}
	for _, l := range r.Log {
		out.Log = append(out.Log, &controlv1.LogLine{Number: l.Number, At: timestamppb.New(l.At), Step: uint32(l.Step), Text: l.Text})
	}
	if r.State != template.Ready {
		return out
	}
	out.Digest = r.Digest
	out.Shape = &controlv1.Shape{Vcpus: uint32(r.Size.VCPUs), MemoryBytes: uint64(r.Size.MemoryBytes), DiskBytes: uint64(r.Size.DiskBytes)}
	out.Defaults = &controlv1.Defaults{Env: r.Defaults.Env, User: r.Defaults.User, Workdir: r.Defaults.Workdir}
	return out
}

// size reads a shape off the wire; none is the zero size. What doesn't fit a size fits no template either.
func size(s *controlv1.Shape) rootfs.Size {
	return rootfs.Size{VCPUs: int(s.GetVcpus()), MemoryBytes: int64(s.GetMemoryBytes()), DiskBytes: int64(s.GetDiskBytes())}
}
