package postgres

import (
	"context"

	"github.com/space-platform/space/internal/control/quota"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// admit refuses what a project's quota has no room for, with quota_exceeded. If it allows it, the caller makes it in the same
// transaction, and until that ends nobody else of the project is admitted. What is used is what the tables of sandboxes and
// templates say, so nothing is ever given back: a delete or a stop that is committed has freed it.
//
// Call it before the rows that count are written. A transaction that locks a sandbox's row as well locks that first;
// one that locks a template's row locks it afterwards.
func admit(ctx context.Context, q *db.Queries, project string, more record.Usage) error {
	limit, err := lockQuota(ctx, q, project)
	if err != nil {
		return err
	}
	return admitWithin(ctx, q, project, limit, more)
}

// lockQuota begins an admission that is ended by admitWithin.
func lockQuota(ctx context.Context, q *db.Queries, project string) (record.Quota, error) {
	l, err := q.LockQuota(ctx, project)
	return record.Quota{Sandboxes: l.QuotaSandboxes, VCPUs: l.QuotaVcpus, MemoryBytes: l.QuotaMemoryBytes, DiskBytes: l.QuotaDiskBytes}, missing(err, "project")
}

func admitWithin(ctx context.Context, q *db.Queries, project string, limit record.Quota, more record.Usage) error {
	used, err := usage(ctx, q, project, limit)
	if err != nil {
		return err
	}
	return quota.Check(limit, used, more)
}

// usage is what counts towards a project's quota. What isn't limited needn't be known: counting takes as long as the project has things.
func usage(ctx context.Context, q *db.Queries, project string, limit record.Quota) (record.Usage, error) {
	if limit == (record.Quota{}) {
		return record.Usage{}, nil
	}
	u, err := q.Usage(ctx, project) // a statement of its own: it sees what was committed before the lock was had
	return record.Usage{Sandboxes: u.Sandboxes, VCPUs: u.Vcpus, MemoryBytes: u.MemoryBytes, DiskBytes: u.DiskBytes}, err
}
