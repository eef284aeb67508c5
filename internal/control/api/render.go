package api

import (
	"time"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
	"github.com/space-platform/space/internal/control/sessions"
)

func renderSandbox(s record.Sandbox) gen.Sandbox {
	return gen.Sandbox{
		Id: s.ID, Template: s.TemplateName, State: gen.SandboxState(sandboxes.State(s.Desired, s.Execution.Observed)),
		Execution: gen.Execution{
			Id: s.Execution.Route.Execution, Epoch: int64(s.Execution.Route.Epoch), Node: s.Execution.Route.Placement.Node,
		},
		Vcpus: int(s.Shape.VCPUs), MemoryMb: s.Shape.MemoryMiB(), DiskMb: s.Shape.DiskMiB(), Metadata: s.Metadata,
		Error: problemOrNil(s.Execution.Error), CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
	}
}

func renderTemplate(t record.Template) gen.Template {
	return gen.Template{
		Id: t.ID, Name: t.Name, State: gen.TemplateState(t.State), Vcpus: int(t.Shape.VCPUs), MemoryMb: t.Shape.MemoryMiB(), DiskMb: t.Shape.DiskMiB(),
		Digest: notEmpty(t.Digest), Progress: notEmpty(t.Progress), Error: problemOrNil(t.Error), CreatedAt: t.CreatedAt.UTC(),
	}
}

func renderSession(s record.Session) gen.Session {
	state := gen.SessionStateCreated
	if !s.StartedAt.IsZero() {
		state = gen.SessionStateStarted
	}
	return gen.Session{
		Id: s.ID, Sandbox: s.Sandbox, State: state, Argv: &s.Spec.Argv, Cwd: notEmpty(s.Spec.Cwd), User: notEmpty(s.Spec.User),
		CreatedAt: s.CreatedAt.UTC(), StartedAt: notZero(s.StartedAt),
	}
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
