package nodesync

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

const (
	// maxReported bounds what one node can report.
	maxReported = 10_000
	// maxSessionEnds bounds the ends of sessions in a report.
	maxSessionEnds = 200
	// maxUploadBytes bounds what a node may say of an upload, far beyond what one may have: sums of them must fit.
	maxUploadBytes = 1 << 40
	// maxNodeBytes bounds what a node may say that it has of memory or disk, far beyond any machine: sums of them must fit.
	maxNodeBytes = 1 << 52
	// maxText bounds each text that a node reports.
	maxText = 4096
)

// readPressure reads how full a node's volume is. A level that isn't known yet is taken for the worst.
func readPressure(s string) record.DiskPressure {
	switch p := record.DiskPressure(s); p {
	case record.DiskFine, record.DiskWarning, record.DiskRefusing:
		return p
	default:
		return record.DiskRefusing
	}
}

// readReport reads a node's report off the wire. A malformed one is refused as a whole.
func readReport(m *controlv1.SynchronizeRequest) (Report, error) {
	if n := len(m.Executions) + len(m.Templates) + len(m.Uploads) + len(m.Snapshots); n > maxReported {
		return Report{}, space.Errorf(space.CodeTooLarge, "the report has %d entries: at most %d are allowed", n, maxReported)
	}
	out := Report{Complete: m.Complete, Facts: record.Facts{
		Driver: clean(m.GetFacts().GetDriver()), Acceleration: clean(m.GetFacts().GetAcceleration()), CPUs: m.GetFacts().GetCpus(),
		MemoryBytes: min(m.GetFacts().GetMemoryBytes(), maxNodeBytes), Version: clean(m.GetFacts().GetVersion()),
		SandboxMemoryBytes: min(m.GetFacts().GetSandboxMemoryBytes(), maxNodeBytes), MemoryAvailableBytes: min(m.GetFacts().GetMemoryAvailableBytes(), maxNodeBytes),
		DiskBytes: min(m.GetFacts().GetDiskBytes(), maxNodeBytes), DiskFreeBytes: min(m.GetFacts().GetDiskFreeBytes(), maxNodeBytes),
		DiskPressure: readPressure(m.GetFacts().GetDiskPressure()), OverheadBytes: min(m.GetFacts().GetOverheadBytes(), maxNodeBytes), ReservedBytes: min(m.GetFacts().GetReservedMemoryBytes(), maxNodeBytes),
	}}
	for _, e := range m.Executions {
		r, err := readExecution(e)
		if err != nil {
			return Report{}, err
		}
		out.Executions = append(out.Executions, r)
	}
	for _, t := range m.Templates {
		r, err := readTemplate(t)
		if err != nil {
			return Report{}, err
		}
		out.Templates = append(out.Templates, r)
	}
	for _, s := range m.Snapshots {
		r, err := readSnapshot(s)
		if err != nil {
			return Report{}, err
		}
		out.Snapshots = append(out.Snapshots, r)
	}
	for _, u := range m.Uploads {
		if err := space.CheckID(space.PrefixUpload, u.GetUpload()); err != nil {
			return Report{}, space.Errorf(space.CodeInvalid, "%w", err)
		}
		out.Uploads = append(out.Uploads, record.UploadSeen{ID: u.Upload, Bytes: int64(min(u.Bytes, maxUploadBytes))})
	}
	if n := len(m.SessionEnds); n > maxSessionEnds {
		return Report{}, space.Errorf(space.CodeTooLarge, "the report has %d ends of sessions: at most %d are allowed", n, maxSessionEnds)
	}
	for _, e := range m.SessionEnds {
		if space.CheckID(space.PrefixSession, e.GetSession()) == nil {
			out.Sessions = append(out.Sessions, readSessionEnd(e))
		}
		out.told = append(out.told, clean(e.GetSession()))
	}
	return out, nil
}

func readSessionEnd(m *controlv1.SessionEnd) record.SessionEnd {
	out := record.SessionEnd{Session: m.Session, At: readTime(m.At), OutputBytes: int64(min(m.OutputBytes, math.MaxInt64))}
	x := m.GetExit()
	if x == nil {
		out.Lost, out.Error = true, clean(m.GetLost().GetMessage())
		return out
	}
	out.Error, out.TimedOut, out.Stopped = clean(x.Error), x.TimedOut, x.Stopped
	if x.Signal != 0 {
		out.Signal = clean(x.SignalName)
	} else {
		code := x.Code
		out.Code = &code
	}
	return out
}

func readExecution(m *controlv1.ExecutionReport) (ExecutionReport, error) {
	route, err := peer.Route(m.Route)
	if err != nil {
		return ExecutionReport{}, err
	}
	out := ExecutionReport{Route: route, State: space.ExecutionState(m.State), Error: readError(m.Error), Since: readTime(m.Since), Figures: readFigures(m.Usage)}
	reportable := []space.ExecutionState{
		space.ExecutionPending, space.ExecutionRunning, space.ExecutionPaused, space.ExecutionFailed, space.ExecutionSuspended, space.ExecutionStopped, space.ExecutionLost,
	}
	if !slices.Contains(reportable, out.State) {
		return ExecutionReport{}, space.Errorf(space.CodeInvalid, "execution %s is reported in the unknown state %q", route.Execution, space.Clip(m.State))
	}
	if err := readHistory(m, &out); err != nil {
		return ExecutionReport{}, err
	}
	return out, nil
}

// readError reads an error; nil if there's none.
func readError(m *routev1.Error) *space.Error {
	var e *space.Error
	if errors.As(peer.MessageError(m), &e) {
		return &space.Error{Code: space.Code(clean(string(e.Code))), Message: clean(e.Message)}
	}
	return nil
}

// readTime reads when something began; a node that doesn't say leaves it to be now.
func readTime(m *timestamppb.Timestamp) time.Time {
	if m.CheckValid() != nil || m.AsTime().IsZero() {
		return time.Now()
	}
	return m.AsTime()
}

// clean makes a node's text fit to be kept and shown.
func clean(s string) string {
	s = s[:min(len(s), maxText)]
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if r != 0 && r != '\uFFFD' {
			out = append(out, r)
		}
	}
	return string(out)
}

func readShape(m *controlv1.Shape) record.Shape {
	return record.Shape{VCPUs: m.GetVcpus(), MemoryBytes: m.GetMemoryBytes(), DiskBytes: m.GetDiskBytes()}
}

func writeShape(s record.Shape) *controlv1.Shape {
	return &controlv1.Shape{Vcpus: s.VCPUs, MemoryBytes: s.MemoryBytes, DiskBytes: s.DiskBytes}
}

func writeAnswer(a Answer) *controlv1.SynchronizeResponse {
	out := &controlv1.SynchronizeResponse{LogsReceived: map[string]uint64{}}
	for _, o := range a.Orders {
		out.Orders = append(out.Orders, writeOrder(o, a.Builds))
	}
	for template, number := range a.LogsReceived {
		out.LogsReceived[template] = uint64(number)
	}
	out.SessionEndsReceived = a.SessionEndsReceived
	return out
}

// writeOrder writes an order with what asked for it; builds says what a template is made of that is to be built.
func writeOrder(o Order, builds map[string]record.BuildOrder) *controlv1.Order {
	out := writeWhat(o, builds)
	if o.Cause != (telemetry.Cause{}) {
		out.Cause = &controlv1.Cause{Request: o.Cause.Request, Traceparent: o.Cause.Traceparent}
	}
	return out
}

func writeWhat(o Order, builds map[string]record.BuildOrder) *controlv1.Order {
	switch o.Kind {
	case EnsureTemplate:
		return writeBuild(builds[o.Template])
	case EnsureExecution:
		return &controlv1.Order{Order: &controlv1.Order_EnsureExecution{EnsureExecution: &controlv1.EnsureExecution{
			Route: peer.RouteMessage(o.Route), Template: o.Template, Shape: writeShape(o.Shape), DiskOf: o.DiskOf,
			Snapshot: o.Snapshot, SnapshotDigest: o.Digest, Cold: o.Cold,
		}}}
	case PauseExecution:
		return &controlv1.Order{Order: &controlv1.Order_PauseExecution{PauseExecution: &controlv1.PauseExecution{Route: peer.RouteMessage(o.Route), Operation: o.Operation}}}
	case ResumeExecution:
		return &controlv1.Order{Order: &controlv1.Order_ResumeExecution{ResumeExecution: &controlv1.ResumeExecution{Route: peer.RouteMessage(o.Route), Operation: o.Operation}}}
	case SuspendExecution:
		return &controlv1.Order{Order: &controlv1.Order_SuspendExecution{SuspendExecution: &controlv1.SuspendExecution{Route: peer.RouteMessage(o.Route), Snapshot: o.Snapshot}}}
	case TakeSnapshot:
		return &controlv1.Order{Order: &controlv1.Order_TakeSnapshot{TakeSnapshot: &controlv1.TakeSnapshot{Route: peer.RouteMessage(o.Route), Snapshot: o.Snapshot, Kind: writeKind(o)}}}
	case RemoveSnapshot:
		return &controlv1.Order{Order: &controlv1.Order_RemoveSnapshot{RemoveSnapshot: &controlv1.RemoveSnapshot{Snapshot: o.Snapshot}}}
	case StopExecution:
		return &controlv1.Order{Order: &controlv1.Order_StopExecution{StopExecution: &controlv1.StopExecution{Route: peer.RouteMessage(o.Route), Grace: durationpb.New(o.Grace)}}}
	case RemoveExecution:
		return &controlv1.Order{Order: &controlv1.Order_RemoveExecution{RemoveExecution: &controlv1.RemoveExecution{Route: peer.RouteMessage(o.Route)}}}
	case RemoveTemplate:
		return &controlv1.Order{Order: &controlv1.Order_RemoveTemplate{RemoveTemplate: &controlv1.RemoveTemplate{Template: o.Template}}}
	case RemoveUpload:
		return &controlv1.Order{Order: &controlv1.Order_RemoveUpload{RemoveUpload: &controlv1.RemoveUpload{Upload: o.Upload}}}
	default:
		panic(fmt.Sprintf("order of unknown kind %d", o.Kind))
	}
}

func writeSpec(s record.Spec) *sessionv1.Spec {
	out := &sessionv1.Spec{Argv: s.Argv, Cwd: s.Cwd, Env: s.Env, User: s.User, Stdin: s.Stdin, OpenStdin: s.OpenStdin}
	if s.TTY != (record.Terminal{}) {
		out.Tty = &sessionv1.Terminal{Rows: s.TTY.Rows, Cols: s.TTY.Cols}
	}
	if s.Timeout > 0 {
		out.Timeout = durationpb.New(s.Timeout)
	}
	return out
}
