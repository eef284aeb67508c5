package api

import (
	"time"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
	"github.com/space-platform/space/internal/control/sessions"
)

func renderSandbox(s record.Sandbox) gen.Sandbox {
	return gen.Sandbox{
		Id: s.ID, Template: s.TemplateName, State: gen.SandboxState(sandboxes.State(s)),
		Execution: gen.Execution{
			Id: s.Execution.Route.Execution, Epoch: int64(s.Execution.Route.Epoch), Node: s.Execution.Route.Placement.Node,
		},
		Vcpus: int(s.Shape.VCPUs), MemoryMb: s.Shape.MemoryMiB(), DiskMb: s.Shape.DiskMiB(), Metadata: s.Metadata,
		Lifetime: renderLifetime(s, time.Now()), Lifecycle: renderLifecycle(s.Lifecycle), ActiveAt: notZero(s.ActiveAt), Parent: renderParent(s.Parent), RecoveryPoint: renderRecovery(s.Recovery), Error: problemOrNil(s.Execution.Error), CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
	}
}

func renderParent(p record.Parent) *gen.Parent {
	if p == (record.Parent{}) {
		return nil
	}
	return &gen.Parent{Sandbox: p.Sandbox, Snapshot: p.Snapshot}
}

func renderRecovery(r *record.Recovery) *gen.RecoveryPoint {
	if r == nil {
		return nil
	}
	return &gen.RecoveryPoint{Snapshot: r.Snapshot, Kind: gen.RecoveryPointKind(r.Kind), At: r.At.UTC()}
}

// renderLifetime leaves out one that is over at a time: what a deadline was to end has ended before, and whoever runs again has none.
func renderLifetime(s record.Sandbox, at time.Time) *gen.Lifetime {
	l := s.Lifetime
	if l == nil || l.OnExpiry != record.ExpiryDelete && !l.Deadline.After(at) && hasEnded(sandboxes.State(s)) {
		return nil
	}
	return &gen.Lifetime{Deadline: notZero(l.Deadline), OnExpiry: gen.LifetimeOnExpiry(l.OnExpiry)}
}

// hasEnded reports whether a sandbox has no machine that a deadline could stop or suspend.
func hasEnded(s space.State) bool {
	return s == space.StateSuspended || s == space.StateStopped || s == space.StateLost || s == space.StateFailed
}

func renderTemplate(t record.Template) gen.Template {
	out := gen.Template{
		Id: t.ID, Name: t.Name, Current: t.Named, Shared: t.Shared, Tags: notNil(t.Tags), Aliases: notNil(t.Aliases), State: gen.TemplateState(t.State), Source: notEmpty(t.Source),
		Vcpus: int(t.Shape.VCPUs), MemoryMb: t.Shape.MemoryMiB(), DiskMb: t.Shape.DiskMiB(), User: notEmpty(t.Defaults.User), Workdir: notEmpty(t.Defaults.Workdir),
		Digest: notEmpty(t.Digest), Progress: notEmpty(t.Progress), Error: problemOf(t.Error, t.Asked), CreatedAt: t.CreatedAt.UTC(),
	}
	if t.Lifecycle != nil {
		out.Lifecycle = renderLifecycle(*t.Lifecycle)
	}
	if len(t.Defaults.Env) > 0 {
		out.Env = &t.Defaults.Env
	}
	if t.State == record.TemplateFailed && t.FailedStep != record.AfterSteps {
		out.FailedStep = &t.FailedStep
	}
	return out
}

func renderSession(s record.Session) gen.Session {
	state := gen.SessionStateCreated
	if !s.StartedAt.IsZero() {
		state = gen.SessionStateStarted
	}
	out := gen.Session{
		Id: s.ID, Sandbox: s.Sandbox, State: state, Argv: &s.Spec.Argv, Cwd: notEmpty(s.Spec.Cwd), User: notEmpty(s.Spec.User),
		Execution: notEmpty(s.Execution), CreatedAt: s.CreatedAt.UTC(), StartedAt: notZero(s.StartedAt),
	}
	if tty := s.Spec.TTY; tty != (record.Terminal{}) {
		out.Tty = &gen.TerminalSize{Rows: int(tty.Rows), Cols: int(tty.Cols)}
	}
	if s.End != nil {
		renderSessionEnd(&out, *s.End)
	}
	return out
}

// renderSessionEnd says how a session ended.
func renderSessionEnd(out *gen.Session, e record.SessionEnd) {
	out.State, out.EndedAt = gen.SessionStateEnded, notZero(e.At)
	out.Signal, out.Error, out.TimedOut, out.Stopped, out.Lost = notEmpty(e.Signal), notEmpty(e.Error), notFalse(e.TimedOut), notFalse(e.Stopped), notFalse(e.Lost)
	if !e.Lost || e.OutputBytes > 0 { // of a lost one, 0 is what nobody knows
		out.OutputBytes = &e.OutputBytes
	}
	if e.Code != nil {
		code := int(*e.Code)
		out.Code = &code
	}
}

func notFalse(b bool) *bool {
	if !b {
		return nil
	}
	return &b
}

func renderAttachment(a sessions.Attachment) gen.Attachment {
	return gen.Attachment{Token: a.Token, Url: a.URL, ExpiresAt: a.ExpiresAt.UTC()}
}

func notZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// notNil keeps an empty list from becoming a null.
func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func renderSnapshot(n record.Snapshot) gen.Snapshot {
	s := n.Status
	out := gen.Snapshot{
		Id: n.ID, Name: notEmpty(n.Name), Sandbox: n.Route.Sandbox, Execution: n.Route.Execution, Template: n.TemplateName, Kind: gen.SnapshotKind(n.Kind),
		Purpose: gen.SnapshotPurpose(n.Purpose), State: gen.SnapshotState(s.State), Vcpus: int(n.Shape.VCPUs), MemoryMb: n.Shape.MemoryMiB(), DiskMb: n.Shape.DiskMiB(),
		Parent: notEmpty(s.Parent), Digest: notEmpty(s.Digest), Driver: notEmpty(s.Driver), DriverVersion: notEmpty(s.Version), Cpu: notEmpty(s.CPU),
		Error: problemOrNil(s.Error), TakenAt: notZero(s.At), CreatedAt: n.CreatedAt.UTC(),
	}
	if n.GivenUp {
		out.GivenUp = &n.GivenUp
	}
	if s.State == record.SnapshotReady || s.State == record.SnapshotDamaged {
		bytes, pause := int64(s.Bytes), float32(s.Pause.Microseconds())/1000
		out.SizeBytes, out.PauseMs = &bytes, &pause
	}
	return out
}
