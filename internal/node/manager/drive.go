package manager

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

// How many calls of a kind the host gets at once. Removals have their own, so that they never wait for machines that are being made.
const (
	maxEnsures = 16
	maxRemoves = 16
	maxStops   = 16
	maxBuilds  = 4  // and removals of templates
	maxFreezes = 32 // pauses, resumes, suspends, and what is about snapshots
)

// How long one call on the host may take. The host goes on with what it has begun; the next try joins it.
const (
	ensureTimeout = 2 * time.Minute
	removeTimeout = time.Minute
	stopTimeout   = 10 * time.Second // the host only takes the order: a long grace of one sandbox holds up no other's stop
	buildTimeout  = 10 * time.Second
	dropTimeout   = 2 * time.Minute
)

// drive is the worker of a key: it does what the record lacks until it lacks nothing.
func (m *Manager) drive(ctx context.Context, key string, woken <-chan struct{}) {
	for ctx.Err() == nil {
		act, r, o := m.table.lacks(key)
		if act == actNone {
			return
		}
		m.whileLacking(ctx, key, act, r, woken, func(ctx context.Context) { m.keepTrying(m.cause(key, r, o).In(ctx), key, m.call(key, act, r, o)) })
	}
}

// cause is what asked for what a key's record lacks.
func (m *Manager) cause(key string, r record, o templateOrder) telemetry.Cause {
	if s := m.table.snapshotOrder(key); s.report != nil {
		return s.cause
	}
	if o.Template != "" {
		return o.Cause
	}
	return r.Cause
}

// whileLacking runs try until the key lacks something else than act, and returns when try has ended: a removal never runs beside the
// creation that it follows.
func (m *Manager) whileLacking(ctx context.Context, key string, act action, r record, woken <-chan struct{}, try func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		try(ctx)
	}()
	for {
		select {
		case <-woken:
			if now, n, _ := m.table.lacks(key); now != act || n.Snapshot != r.Snapshot || n.Operation != r.Operation {
				cancel()
			}
		case <-done:
			return
		}
	}
}

// keepTrying calls until its context ends. A call that succeeded shows in the record, which ends the context, at the latest with the
// host's next Watch message; one that did not is repeated with back-off. Of failures that follow each other the first one is logged.
func (m *Manager) keepTrying(ctx context.Context, key string, call func(context.Context) error) {
	b := backoff{first: m.timing.workFirst, most: m.timing.workMost}
	for failing := false; ctx.Err() == nil; wait(ctx, b.next(), nil) {
		err := call(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			slog.WarnContext(ctx, "the host didn't do what a record needs; will try until it does", "key", key, "err", err)
		}
		failing = err != nil
	}
}

// call returns what brings a record nearer to what it should be. It notes its outcome in the table itself.
func (m *Manager) call(key string, act action, r record, o templateOrder) func(context.Context) error {
	switch act {
	case actEnsure:
		return func(ctx context.Context) error { return m.ensure(ctx, r) }
	case actRemove:
		return func(ctx context.Context) error { return m.remove(ctx, r) }
	case actStop:
		return func(ctx context.Context) error { return m.halt(ctx, r) }
	case actPause:
		return func(ctx context.Context) error { return m.pause(ctx, r) }
	case actResume:
		return func(ctx context.Context) error { return m.resume(ctx, r) }
	case actSuspend:
		return func(ctx context.Context) error { return m.suspend(ctx, r) }
	case actTake:
		return func(ctx context.Context) error { return m.takeSnapshot(ctx, key, m.table.snapshotOrder(key)) }
	case actDiscard:
		return func(ctx context.Context) error { return m.discard(ctx, key) }
	case actConfirm:
		return func(ctx context.Context) error { return m.confirm(ctx) }
	case actBuild:
		return func(ctx context.Context) error { return m.build(ctx, o) }
	case actDrop:
		return func(ctx context.Context) error { return m.drop(ctx, o) }
	default:
		return func(ctx context.Context) error { return m.settle(ctx) }
	}
}

func (m *Manager) ensure(ctx context.Context, r record) error {
	order := new(controlv1.EnsureExecution)
	if err := r.Order.into(order); err != nil {
		return err
	}
	err := limited(ctx, m.ensures, ensureTimeout, func(ctx context.Context) error {
		_, err := m.host.EnsureExecution(ctx, connect.NewRequest(&hostv1.EnsureExecutionRequest{Order: order, Life: m.table.store.life}))
		return err
	})
	if refusal := refused(err); refusal != nil && ctx.Err() == nil {
		return m.table.failed(r.Route.Execution, refusal)
	}
	return err
}

// halt tells the host to stop an execution. That it has shows in its Watch, and so does that the execution was lost before; until then the host is
// told again now and then, since it may have died before it noted the order.
func (m *Manager) halt(ctx context.Context, r record) error {
	return limited(ctx, m.stops, stopTimeout, func(ctx context.Context) error {
		_, err := m.host.StopExecution(ctx, connect.NewRequest(&hostv1.StopExecutionRequest{
			Order: &controlv1.StopExecution{Route: peer.RouteMessage(r.Route), Grace: durationpb.New(r.Grace)},
		}))
		return err
	})
}

func (m *Manager) remove(ctx context.Context, r record) error {
	err := limited(ctx, m.removes, removeTimeout, func(ctx context.Context) error {
		_, err := m.host.RemoveExecution(ctx, connect.NewRequest(&hostv1.RemoveExecutionRequest{Route: peer.RouteMessage(r.Route)}))
		return err
	})
	if err != nil {
		return err
	}
	return m.removals.note(r.Route.Execution)
}

func (m *Manager) build(ctx context.Context, o templateOrder) error {
	order := new(controlv1.EnsureTemplate)
	if err := o.Order.into(order); err != nil {
		return err
	}
	return m.aboutTemplate(ctx, o, buildTimeout, func(ctx context.Context) error {
		_, err := m.host.EnsureTemplate(ctx, connect.NewRequest(&hostv1.EnsureTemplateRequest{Order: order}))
		return err
	})
}

func (m *Manager) drop(ctx context.Context, o templateOrder) error {
	return m.aboutTemplate(ctx, o, dropTimeout, func(ctx context.Context) error {
		_, err := m.host.RemoveTemplate(ctx, connect.NewRequest(&hostv1.RemoveTemplateRequest{Order: &controlv1.RemoveTemplate{Template: o.Template}}))
		return err
	})
}

// aboutTemplate makes a call about a template and notes that the host accepted it, or refused it for good.
func (m *Manager) aboutTemplate(ctx context.Context, o templateOrder, timeout time.Duration, call func(context.Context) error) error {
	err := limited(ctx, m.builds, timeout, call)
	refusal := refused(err)
	if err != nil && (refusal == nil || ctx.Err() != nil) {
		return err
	}
	if refusal != nil {
		slog.WarnContext(ctx, "the host refused an order about a template", "template", o.Template, "remove", o.Remove, "err", refusal)
	}
	return m.table.built(o.Template, refusal)
}

// settle waits until the host has had its time to show an accepted build.
func (m *Manager) settle(ctx context.Context) error {
	wait(ctx, confirmTemplate, nil)
	return m.table.settle()
}

// limited runs a call when a slot is free, under a deadline that begins then.
func limited(ctx context.Context, slots chan struct{}, timeout time.Duration, call func(context.Context) error) error {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return call(ctx)
}

// refused returns the error by which the host says that trying again is of no use; nil for any other, and for none.
func refused(err error) error {
	err = peer.FromConnect(err)
	switch space.CodeOf(err) {
	case "", space.CodeUnavailable, space.CodeTimeout:
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
