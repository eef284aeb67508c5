package postgres

import (
	"context"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

func wantedTemplate(r db.NodeTemplatesRow) record.WantedTemplate {
	out := record.WantedTemplate{ID: r.ID, Cause: cause(r.Request, r.Traceparent)}
	if r.Newest != nil {
		out.Log = record.LogHead{Newest: *r.Newest, NewestAt: *r.NewestAt}
	}
	if r.State == nil {
		return out
	}
	out.Recorded = record.TemplateStatus{
		State: record.TemplateState(*r.State), Shape: shape(*r.Vcpus, *r.MemoryBytes, *r.DiskBytes),
		Digest: text(r.Digest), Progress: text(r.Progress), FailedStep: int(*r.FailedStep),
	}
	return out
}

// observeTemplate writes what was seen of a template. One that is ready for the first time takes its name and the tags that it's to have
// from older versions; an end ends the operation of the build.
func (s *Store) observeTemplate(ctx context.Context, q *db.Queries, t record.TemplateSeen) ([]string, error) {
	// Held before its names are touched, in the order in which those do who build or delete it.
	if err := holdTemplate(ctx, q, t.ID); err != nil {
		if space.CodeOf(err) == space.CodeNotFound {
			return nil, nil
		}
		return nil, err
	}
	written, err := s.writeStatus(ctx, q, t)
	if err != nil || len(written) == 0 || t.Status.State == record.TemplateBuilding {
		return nil, err
	}
	if err := q.DropRegistryAuth(ctx, t.ID); err != nil {
		return nil, err
	}
	if written[0] {
		if err := q.TakeName(ctx, t.ID); err != nil {
			return nil, err
		}
		if err := q.TakeTags(ctx, t.ID); err != nil {
			return nil, err
		}
	}
	ended, err := endTemplateOperation(ctx, q, t.ID, t.Status.Error)
	if err != nil {
		return nil, err
	}
	return ended, emitBuilt(ctx, q, t, written[0] || len(ended) > 0)
}

// emitBuilt writes that a build has ended. That a template is as ready as before isn't news.
func emitBuilt(ctx context.Context, q *db.Queries, t record.TemplateSeen, news bool) error {
	switch {
	case t.Status.State == record.TemplateFailed:
		data := errorData(t.Status.Error)
		if n := t.Status.FailedStep; n != record.AfterSteps {
			data["failed_step"] = n
		}
		return emitTemplate(ctx, q, record.EventTemplateFailed, t.ID, "", data)
	case news:
		return emitTemplate(ctx, q, record.EventTemplateReady, t.ID, "", nil)
	default:
		return nil
	}
}

// writeStatus returns one value if it wrote something: whether the template is ready for the first time.
func (s *Store) writeStatus(ctx context.Context, q *db.Queries, t record.TemplateSeen) ([]bool, error) {
	env, err := s.sealEnv(t.Defaults.Env, templateEnvContext(t.ID))
	if err != nil {
		return nil, err
	}
	code, message := failureColumns(t.Status.Error)
	return q.ObserveTemplate(ctx, db.ObserveTemplateParams{
		Template: t.ID, State: string(t.Status.State), Vcpus: int32(t.Status.Shape.VCPUs), MemoryBytes: int64(t.Status.Shape.MemoryBytes),
		DiskBytes: int64(t.Status.Shape.DiskBytes), Digest: t.Status.Digest, Progress: t.Status.Progress, ErrorCode: code, ErrorMessage: message,
		ErrorField: fieldColumn(t.Status.Error),
		FailedStep: int32(t.Status.FailedStep), EnvSealed: env, RunAs: t.Defaults.User, Workdir: t.Defaults.Workdir,
	})
}
