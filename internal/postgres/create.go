package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/quota"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// maxTogether bounds how many sandboxes are created in one transaction.
const maxTogether = 64

// creation is one sandbox that is to be created, and what became of it.
type creation struct {
	turn
	record    record.NewSandbox
	fits      func(record.Room) error
	metadata  []byte
	idleAfter int32
	idle      string
	rolling   []byte
	env       []byte
	operation string
}

// CreateSandbox writes the intent of a new sandbox, all in one transaction, and returns its operation: an earlier one if the request's
// Idempotency-Key has made it already. fits may refuse it for what its node has and carries already.
//
// Sandboxes of one project on one node are created one after the other, since each counts for the next. Those that come at the same time share a
// transaction, so that not each of them waits for the commits of all before.
func (s *Store) CreateSandbox(ctx context.Context, n record.NewSandbox, fits func(record.Room) error) (operation string, err error) {
	c, err := s.newCreation(ctx, n)
	if err != nil {
		return "", err
	}
	c.fits = fits
	if err := ctx.Err(); err != nil {
		return "", explain("create sandbox "+n.Route.Sandbox, err)
	}
	s.creations.ask(n.Project+"/"+n.Route.Placement.Node, c)
	<-c.done
	if c.err != nil {
		return "", explain("create sandbox "+n.Route.Sandbox, c.err)
	}
	return c.operation, nil
}

// newCreation is a sandbox to be created, as it's written.
func (s *Store) newCreation(ctx context.Context, n record.NewSandbox) (c *creation, err error) {
	c = &creation{turn: newTurn(ctx), record: n}
	if c.env, err = s.sealEnv(n.Env, envContext(n.Route.Sandbox)); err != nil {
		return nil, err
	}
	if c.metadata, err = json.Marshal(n.Metadata); err != nil {
		return nil, err
	}
	c.idleAfter, c.idle, c.rolling, err = lifecycleColumns(n.Lifecycle)
	return c, err
}

// createTogether serves creations of one project on one node.
func (s *Store) createTogether(_ string, all []*creation) {
	together(all, func(c *creation) string { return c.record.Request.Key }, s.createInOne)
}

// createInOne creates all in one transaction. Those that are refused have an error of their own.
func (s *Store) createInOne(all []*creation) error {
	n := all[0].record
	ctx := context.WithoutCancel(all[0].ctx)
	return s.write(ctx, "create sandboxes", "", func(ctx context.Context, q *db.Queries) error {
		fresh, err := claimAll(ctx, q, n.Project, all)
		if err != nil {
			return err
		}
		admitted, err := admitAll(ctx, q, n.Project, n.Route.Placement.Node, fresh)
		if err != nil {
			return err
		}
		if err := release(ctx, q, n.Project, fresh); err != nil || len(admitted) == 0 {
			return err
		}
		note(ctx, n.Project)
		return q.CreateSandboxes(later(ctx), newSandboxes(admitted))
	})
}

// claimAll takes the requests' Idempotency-Keys, and returns the creations that aren't answered by what an earlier request has made.
func claimAll(ctx context.Context, q *db.Queries, project string, all []*creation) (fresh []*creation, err error) {
	p := db.ClaimIdempotencyKeysParams{Project: project, Kept: record.IdempotencyKept}
	for _, c := range all {
		c.operation, c.err = c.record.Operation, nil
		if r := c.record.Request; r.Key != "" {
			p.Keys, p.RequestHashes, p.Resources = append(p.Keys, r.Key), append(p.RequestHashes, r.Hash[:]), append(p.Resources, c.record.Operation)
		}
	}
	if len(p.Keys) == 0 {
		return all, nil
	}
	ours, err := q.ClaimIdempotencyKeys(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if c.record.Request.Key == "" || slices.Contains(ours, c.record.Request.Key) {
			fresh = append(fresh, c)
		} else if c.operation, c.err = made(ctx, q, project, c.record.Request); c.err != nil && !typed(c.err) {
			return nil, c.err
		}
	}
	return fresh, nil
}

// admitAll refuses those for which there's no room, or whose template is gone, and returns the others. Until the transaction ends, nobody else
// of the project and on the node is admitted.
func admitAll(ctx context.Context, q *db.Queries, project, node string, all []*creation) (admitted []*creation, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	a, err := admission(ctx, q, project, node, all)
	if err != nil {
		return nil, err
	}
	limit, room := admissionQuota(a), admissionRoom(a)
	used, err := usage(ctx, q, project, limit)
	if err != nil {
		return nil, err
	}
	snapshots, err := holdSnapshots(ctx, q, all)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		more := quota.Of(c.record.Shape)
		if c.err = quota.Check(limit, used, more); c.err == nil {
			c.err = c.fits(room)
		}
		if c.err == nil && !slices.Contains(a.Templates, c.record.Template) {
			c.err = space.Errorf(space.CodeNotFound, "the template does not exist")
		}
		if n := c.record.Snapshot; c.err == nil && n != "" && !slices.Contains(snapshots, n) {
			c.err = space.Errorf(space.CodeNotFound, "the snapshot does not exist")
		}
		if c.err != nil {
			continue
		}
		used, room = used.With(more), room.With(c.record.Shape)
		admitted = append(admitted, c)
	}
	return admitted, nil
}

// admission locks what decides about creations, and reads it.
func admission(ctx context.Context, q *db.Queries, project, node string, all []*creation) (db.AdmissionRow, error) {
	var templates []string
	for _, c := range all {
		templates = append(templates, c.record.Template)
	}
	slices.Sort(templates)
	templates = slices.Compact(templates)
	if err := q.LockProjectForCreation(later(ctx), project); err != nil {
		return db.AdmissionRow{}, err
	}
	if err := q.LockNode(later(ctx), node); err != nil {
		return db.AdmissionRow{}, err
	}
	if err := q.HoldTemplates(later(ctx), templates); err != nil {
		return db.AdmissionRow{}, err
	}
	a, err := q.Admission(ctx, db.AdmissionParams{Project: project, Node: node, Templates: templates}) // it sees what was committed before the locks were had
	return a, missing(err, "project")
}

func admissionQuota(a db.AdmissionRow) record.Quota {
	return record.Quota{Sandboxes: a.QuotaSandboxes, VCPUs: a.QuotaVcpus, MemoryBytes: a.QuotaMemoryBytes, DiskBytes: a.QuotaDiskBytes}
}

func admissionRoom(a db.AdmissionRow) record.Room {
	return nodeRoom(db.NodeRoomRow{
		Cpus: a.Cpus, MemoryBytes: a.MemoryBytes, SandboxMemoryBytes: a.SandboxMemoryBytes, DiskBytes: a.DiskBytes, DiskFreeBytes: a.DiskFreeBytes,
		DiskPressure: a.DiskPressure, OverheadBytes: a.OverheadBytes, ReservedMemoryBytes: a.ReservedMemoryBytes,
		LoadMachines: a.LoadMachines, LoadVcpus: a.LoadVcpus, LoadMemoryBytes: a.LoadMemoryBytes,
	})
}

// holdSnapshots holds the snapshots that sandboxes are to be loaded from, and returns those that aren't to go.
func holdSnapshots(ctx context.Context, q *db.Queries, all []*creation) ([]string, error) {
	var ids []string
	for _, c := range all {
		if c.record.Snapshot != "" {
			ids = append(ids, c.record.Snapshot)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return q.HoldSnapshots(ctx, ids)
}

// release gives back the Idempotency-Keys of those that were refused: they've made nothing.
func release(ctx context.Context, q *db.Queries, project string, all []*creation) error {
	var keys []string
	for _, c := range all {
		if c.err != nil && c.record.Request.Key != "" {
			keys = append(keys, c.record.Request.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return q.ReleaseIdempotencyKeys(ctx, db.ReleaseIdempotencyKeysParams{Project: project, Keys: keys})
}

// typed reports whether an error is an answer, and not the database's trouble.
func typed(err error) bool { return errors.As(err, new(*space.Error)) }

// postgresTime is a time as text, cut to what the database keeps.
const postgresTime = "2006-01-02T15:04:05.000000Z07:00"

func newSandboxes(all []*creation) db.CreateSandboxesParams {
	first := all[0].record
	p := db.CreateSandboxesParams{Project: first.Project, Node: first.Route.Placement.Node}
	for _, c := range all {
		n := c.record
		deadline, onExpiry := "", ""
		if l := n.Lifetime; l != nil {
			deadline, onExpiry = l.Deadline.Format(postgresTime), string(l.OnExpiry)
		}
		request, traceparent := causeColumns(c.ctx)
		p.Ids, p.Templates, p.Executions = append(p.Ids, n.Route.Sandbox), append(p.Templates, n.Template), append(p.Executions, n.Route.Execution)
		p.Epochs, p.PlacementKinds = append(p.Epochs, int64(n.Route.Epoch)), append(p.PlacementKinds, string(n.Route.Placement.Kind))
		p.PodUids, p.Operations = append(p.PodUids, n.Route.Placement.PodUID), append(p.Operations, n.Operation)
		p.Vcpus, p.MemoryBytes = append(p.Vcpus, int32(n.Shape.VCPUs)), append(p.MemoryBytes, int64(n.Shape.MemoryBytes))
		p.DiskBytes, p.Metadata = append(p.DiskBytes, int64(n.Shape.DiskBytes)), append(p.Metadata, string(c.metadata))
		p.EnvSealed = append(p.EnvSealed, bytes.Clone(c.env))
		p.ExpiresAt, p.OnExpiry = append(p.ExpiresAt, deadline), append(p.OnExpiry, onExpiry)
		p.AutoWakes, p.IdleAfterSeconds = append(p.AutoWakes, n.Lifecycle.AutoWake), append(p.IdleAfterSeconds, c.idleAfter)
		p.IdleActions, p.Rolling = append(p.IdleActions, c.idle), append(p.Rolling, string(c.rolling))
		p.IdleEgresses = append(p.IdleEgresses, n.Lifecycle.Idle != nil && n.Lifecycle.Idle.Egress)
		p.Snapshots, p.Parents, p.PartOf = append(p.Snapshots, n.Snapshot), append(p.Parents, n.Parent), append(p.PartOf, n.PartOf)
		p.Requests, p.Traceparents = append(p.Requests, text(request)), append(p.Traceparents, text(traceparent))
	}
	return p
}
