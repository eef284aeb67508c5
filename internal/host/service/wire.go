package service

import (
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/host/execution"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/snapshot"
	"github.com/space-platform/space/internal/host/template"
	"github.com/space-platform/space/internal/peer"
)

func executionReport(r execution.Report) *controlv1.ExecutionReport {
	out := &controlv1.ExecutionReport{
		Route: peer.RouteMessage(r.Route), State: string(r.State), Error: peer.ErrorMessage(r.Err), Since: timestamppb.New(r.Since), Usage: r.Usage,
		Snapshot: r.Snapshot,
	}
	for _, c := range r.Sessions {
		out.Sessions = append(out.Sessions, &controlv1.SessionCopy{Session: c.Session, Of: c.Of})
	}
	return out
}

func snapshotReport(r snapshot.Report) *controlv1.SnapshotReport {
	out := &controlv1.SnapshotReport{
		Snapshot: r.Snapshot, State: r.State, Error: peer.ErrorMessage(r.Err), Route: peer.RouteMessage(r.Route), Template: r.Template, Shape: shape(r.Size),
		Kind: controlv1.SnapshotKind_SNAPSHOT_KIND_DISK,
	}
	if r.Kind == snapshot.Full {
		out.Kind = controlv1.SnapshotKind_SNAPSHOT_KIND_FULL
	}
	if r.State != snapshot.Ready {
		return out
	}
	out.At, out.Pause, out.Bytes, out.Digest, out.Parent = timestamppb.New(r.At), durationpb.New(r.Pause), uint64(r.Bytes), r.Digest, r.Parent
	if r.VMM != nil {
		out.Origin = &controlv1.Origin{Driver: r.VMM.Driver, Version: r.VMM.Version, Cpu: r.VMM.CPU}
	}
	return out
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
	out.Shape = shape(r.Size)
	out.Defaults = &controlv1.Defaults{Env: r.Defaults.Env, User: r.Defaults.User, Workdir: r.Defaults.Workdir}
	return out
}

func shape(s rootfs.Size) *controlv1.Shape {
	return &controlv1.Shape{Vcpus: uint32(s.VCPUs), MemoryBytes: uint64(s.MemoryBytes), DiskBytes: uint64(s.DiskBytes)}
}

// size reads a shape off the wire; none is the zero size. What doesn't fit a size fits no template either.
func size(s *controlv1.Shape) rootfs.Size {
	return rootfs.Size{VCPUs: int(s.GetVcpus()), MemoryBytes: int64(s.GetMemoryBytes()), DiskBytes: int64(s.GetDiskBytes())}
}
