package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/quota"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// maxTemplates bounds the templates of a project, all versions counted.
const maxTemplates = 1000

// BuildTemplate writes the intent of a template, in one transaction, and returns its operation. If the name's newest version that hasn't
// failed has the same content it's kept, and its operation is returned: unless the build is to be without a cache.
//
// Errors: invalid_request (the name is an alias, an upload doesn't exist), not_found (the template that it's built on was deleted),
// quota_exceeded (the project has too many, or no room for its disk).
func (s *Store) BuildTemplate(ctx context.Context, n record.NewTemplate) (operation string, err error) {
	build, err := s.sealBuild(n.ID, n.Build)
	if err != nil {
		return "", err
	}
	auth, err := s.sealAuth(n.ID, n.Auth)
	if err != nil {
		return "", err
	}
	err = s.write(ctx, "build template", n.Name, func(ctx context.Context, q *db.Queries) error {
		operation, err = claim(ctx, q, n.Project, n.Request, n.Operation)
		if err != nil || operation != n.Operation {
			return err
		}
		operation, err = ensureTemplate(ctx, q, n, sealed{build, auth})
		if err != nil || n.Request.Key == "" || operation == n.Operation {
			return err
		}
		return q.RepointIdempotencyKey(ctx, db.RepointIdempotencyKeyParams{Project: n.Project, Key: n.Request.Key, Resource: operation})
	})
	return operation, err
}

// sealed is what of a template is kept sealed.
type sealed struct{ build, auth []byte }

// ensureTemplate inserts the template unless the same one is there: then it returns that one's operation.
func ensureTemplate(ctx context.Context, q *db.Queries, n record.NewTemplate, s sealed) (string, error) {
	if err := q.LockName(ctx, db.LockNameParams{Project: n.Project, Name: n.Name}); err != nil {
		return "", err
	}
	if err := checkNotAlias(ctx, q, n.Project, n.Name); err != nil {
		return "", err
	}
	limit, err := lockQuota(ctx, q, n.Project)
	if err != nil {
		return "", err
	}
	content, err := contentHash(ctx, q, n)
	if err != nil {
		return "", err
	}
	if n.Build.NoCache {
		return n.Operation, insertTemplate(ctx, q, n, limit, content, s)
	}
	newest, err := q.NewestVersion(ctx, db.NewestVersionParams{Project: n.Project, Name: n.Name})
	switch {
	case err == nil && bytes.Equal(newest.ContentHash, content):
		return keepTemplate(ctx, q, n, newest)
	case err == nil || errors.Is(err, pgx.ErrNoRows):
		return n.Operation, insertTemplate(ctx, q, n, limit, content, s)
	default:
		return "", err
	}
}

func checkNotAlias(ctx context.Context, q *db.Queries, project, name string) error {
	of, err := q.AliasOf(ctx, db.AliasOfParams{Project: project, Alias: name})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	default:
		return space.FieldErrorf("name", "%s is an alias of template %s: choose another name, or remove the alias first", name, of)
	}
}

// contentHash holds the uploads that the template uses and hashes what it will be.
func contentHash(ctx context.Context, q *db.Queries, n record.NewTemplate) ([]byte, error) {
	ids := n.Build.Uploads()
	digests := map[string]string{}
	if len(ids) > 0 {
		rows, err := q.HoldUploads(ctx, db.HoldUploadsParams{Project: n.Project, Ids: ids, Kept: record.UploadKept})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			digests[r.ID] = r.Sha256
		}
		for _, id := range ids {
			if _, there := digests[id]; !there {
				return nil, space.FieldErrorf(n.Build.UploadField(id), "there is no such upload: one can be used for %.0f hours", record.UploadKept.Hours())
			}
		}
	}
	h, err := n.Content(digests)
	return h[:], err
}

// keepTemplate returns the operation of a template that is there. One that its node builds anew by itself gets a new one.
func keepTemplate(ctx context.Context, q *db.Queries, n record.NewTemplate, t db.NewestVersionRow) (string, error) {
	if err := shareTemplate(ctx, q, n, t.ID); err != nil {
		return "", err
	}
	if n.Lifecycle != nil {
		life, err := json.Marshal(n.Lifecycle)
		if err == nil {
			err = q.SetTemplateLifecycle(ctx, db.SetTemplateLifecycleParams{Lifecycle: life, ID: t.ID})
		}
		if err != nil {
			return "", err
		}
	}
	ready := t.State == string(record.TemplateReady)
	if err := wantTags(ctx, q, n, t.ID, ready); err != nil {
		return "", err
	}
	o, err := q.TemplateOperation(ctx, t.ID)
	if err != nil || ready || o.Status == string(record.OperationRunning) {
		return o.ID, err
	}
	return n.Operation, insertTemplateOperation(ctx, q, n, t.ID)
}

// wantTags gives tags to a template, at once or when it is ready.
func wantTags(ctx context.Context, q *db.Queries, n record.NewTemplate, template string, now bool) error {
	if len(n.Tags) == 0 {
		return nil
	}
	if !now {
		return q.WantTags(ctx, db.WantTagsParams{ID: template, Tags: n.Tags})
	}
	for _, tag := range n.Tags {
		if err := q.SetTag(ctx, db.SetTagParams{Tag: tag, Template: template}); err != nil {
			return err
		}
	}
	return checkTags(ctx, q, n.Project, n.Name)
}

func insertTemplate(ctx context.Context, q *db.Queries, n record.NewTemplate, limit record.Quota, content []byte, s sealed) error {
	if err := admitWithin(ctx, q, n.Project, limit, quota.OfTemplate(n.Shape)); err != nil {
		return err
	}
	count, err := q.CountTemplates(ctx, n.Project)
	if err != nil {
		return err
	}
	if count >= maxTemplates {
		return space.Errorf(space.CodeQuotaExceeded, "the project has %d templates, which is the limit: delete versions that aren't used", count)
	}
	if err := holdTemplate(ctx, q, n.Build.Source.Template); err != nil {
		return err
	}
	superseded, err := q.SupersedeFailed(ctx, db.SupersedeFailedParams{Project: n.Project, Name: n.Name, ContentHash: content})
	if err != nil {
		return err
	}
	var life []byte // null: nothing is said
	if n.Lifecycle != nil {
		if life, err = json.Marshal(n.Lifecycle); err != nil {
			return err
		}
	}
	if err := q.InsertTemplate(ctx, db.InsertTemplateParams{
		ID: n.ID, Project: n.Project, Name: n.Name, Node: n.Node,
		Vcpus: int32(n.Shape.VCPUs), MemoryBytes: int64(n.Shape.MemoryBytes), DiskBytes: int64(n.Shape.DiskBytes),
		BuildSealed: s.build, RegistryAuthSealed: s.auth, ContentHash: content, Source: n.Source, Base: orNull(n.Build.Source.Template), WantedTags: noNull(n.Tags), Lifecycle: life,
	}); err != nil {
		return err
	}
	if err := shareTemplate(ctx, q, n, n.ID); err != nil {
		return err
	}
	return furnishTemplate(ctx, q, n, superseded)
}

// shareTemplate lets all projects of the organisation use what is a recipe and nothing more: nothing in it is anybody's.
func shareTemplate(ctx context.Context, q *db.Queries, n record.NewTemplate, id string) error {
	if !n.Build.Plain() {
		return nil
	}
	return q.ShareTemplate(ctx, id)
}

// furnishTemplate gives a new template its operation, its uploads and the names that are free for it.
func furnishTemplate(ctx context.Context, q *db.Queries, n record.NewTemplate, superseded []string) error {
	if err := insertTemplateOperation(ctx, q, n, n.ID); err != nil {
		return err
	}
	if uploads := n.Build.Uploads(); len(uploads) > 0 {
		if err := q.InsertTemplateUploads(ctx, db.InsertTemplateUploadsParams{Template: n.ID, Uploads: uploads}); err != nil {
			return err
		}
	}
	if len(superseded) > 0 {
		if err := q.InheritNames(ctx, db.InheritNamesParams{Template: n.ID, Superseded: superseded}); err != nil {
			return err
		}
		if err := q.InheritTags(ctx, db.InheritTagsParams{Template: n.ID, Superseded: superseded}); err != nil {
			return err
		}
	}
	if err := q.ClaimName(ctx, n.ID); err != nil {
		return err
	}
	if err := q.ClaimTags(ctx, n.ID); err != nil {
		return err
	}
	return emitTemplate(ctx, q, record.EventTemplateCreated, n.ID, n.Operation, map[string]any{"name": n.Name})
}

// holdTemplate keeps a template from being deleted until the end of the transaction; not_found if it is. None is held by "".
func holdTemplate(ctx context.Context, q *db.Queries, id string) error {
	if id == "" {
		return nil
	}
	_, err := q.HoldTemplate(ctx, id)
	return missing(err, "template")
}

// noNull keeps an absent list from becoming a null.
func noNull(s []string) []string {
	if s == nil {
		return []string{}
	}
	return slices.Clone(s)
}
