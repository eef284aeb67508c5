package nodesync

import (
	"regexp"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/control/record"
)

const (
	// maxCopies bounds the sessions that go on in one execution.
	maxCopies = 10_000
	// maxSnapshotBytes bounds what a node may say of a snapshot, far beyond what one may take: sums of them must fit.
	maxSnapshotBytes = 1 << 44
	// maxPause bounds for how long a snapshot may be said to have taken.
	maxPause = time.Hour
)

var digestRE = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// readSnapshot reads a node's report of one snapshot.
func readSnapshot(m *controlv1.SnapshotReport) (record.SnapshotSeen, error) {
	if err := space.CheckID(space.PrefixSnapshot, m.GetSnapshot()); err != nil {
		return record.SnapshotSeen{}, space.Errorf(space.CodeInvalid, "%w", err)
	}
	s := record.SnapshotStatus{
		State: record.SnapshotState(m.State), Error: readError(m.Error), Bytes: min(m.Bytes, maxSnapshotBytes), Digest: clean(m.Digest), Parent: clean(m.Parent),
		Driver: clean(m.GetOrigin().GetDriver()), Version: clean(m.GetOrigin().GetVersion()), CPU: clean(m.GetOrigin().GetCpu()),
	}
	if p := m.GetPause(); p.CheckValid() == nil {
		s.Pause = min(max(p.AsDuration(), 0), maxPause)
	}
	switch s.State {
	case record.SnapshotMaking, record.SnapshotFailed:
		s.Digest = ""
	case record.SnapshotReady:
		if !digestRE.MatchString(s.Digest) {
			return record.SnapshotSeen{}, space.Errorf(space.CodeInvalid, "snapshot %s is reported ready with the digest %q, which is none", m.Snapshot, space.Clip(m.Digest))
		}
		s.At = readTime(m.At)
	default:
		return record.SnapshotSeen{}, space.Errorf(space.CodeInvalid, "snapshot %s is reported in the unknown state %q", m.Snapshot, space.Clip(m.State))
	}
	return record.SnapshotSeen{ID: m.Snapshot, Status: s}, nil
}

// readHistory reads what a report says of an execution's snapshot and sessions, and what it refused.
func readHistory(m *controlv1.ExecutionReport, out *ExecutionReport) error {
	if m.Snapshot != "" && space.CheckID(space.PrefixSnapshot, m.Snapshot) != nil {
		return space.Errorf(space.CodeInvalid, "execution %s is reported to be in the snapshot %q, which is none", out.Route.Execution, space.Clip(m.Snapshot))
	}
	if n := len(m.Sessions); n > maxCopies {
		return space.Errorf(space.CodeTooLarge, "execution %s is reported with %d sessions: at most %d are allowed", out.Route.Execution, n, maxCopies)
	}
	out.HeldBy, out.Refusal, out.Refused = m.Snapshot, readError(m.Refusal), clean(m.Refused)
	for _, s := range m.Sessions {
		if space.CheckID(space.PrefixSession, s.GetSession()) == nil && space.CheckID(space.PrefixSession, s.GetOf()) == nil {
			out.Sessions = append(out.Sessions, record.SessionCopy{Session: s.Session, Of: s.Of})
		}
	}
	if isTime(m.Active) {
		out.Active = m.Active.AsTime()
	}
	return nil
}

func isTime(m *timestamppb.Timestamp) bool { return m != nil && m.CheckValid() == nil }

func writeKind(o Order) controlv1.SnapshotKind {
	if o.Disk {
		return controlv1.SnapshotKind_SNAPSHOT_KIND_DISK
	}
	return controlv1.SnapshotKind_SNAPSHOT_KIND_FULL
}
