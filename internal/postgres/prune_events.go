package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/space-platform/space/internal/postgres/db"
)

// pruneOldEvents deletes events by their age.
func pruneOldEvents(ctx context.Context, q *db.Queries) (int64, error) {
	rows, err := q.PruneOldEvents(ctx, db.PruneOldEventsParams{Kept: eventsKept, MaxRows: pruneRows})
	if err != nil {
		return 0, err
	}
	upTo := map[string]int64{}
	for _, r := range rows {
		upTo[r.Project] = max(upTo[r.Project], r.Number)
	}
	return int64(len(rows)), rememberPruned(ctx, q, upTo)
}

// pruneExcessEvents deletes the oldest events of the projects that have more than their share.
func pruneExcessEvents(ctx context.Context, q *db.Queries) (int64, error) {
	excess, err := q.EventExcess(ctx, maxEvents)
	if err != nil {
		return 0, err
	}
	total, upTo := int64(0), map[string]int64{}
	for _, e := range excess {
		rows, err := q.PruneExcessEvents(ctx, db.PruneExcessEventsParams{Project: e.Project, Number: e.Number, MaxRows: pruneRows})
		if err != nil {
			return 0, err
		}
		for _, r := range rows {
			upTo[r.Project] = max(upTo[r.Project], r.Number)
		}
		total += int64(len(rows))
	}
	return total, rememberPruned(ctx, q, upTo)
}

// rememberPruned writes down up to where events are gone, so that a reader who comes too late can be told.
func rememberPruned(ctx context.Context, q *db.Queries, upTo map[string]int64) error {
	for _, project := range slices.Sorted(maps.Keys(upTo)) { // in one order: two that prune at once don't wait for each other in a circle
		if err := q.RememberPrunedEvents(ctx, db.RememberPrunedEventsParams{Project: project, Number: upTo[project]}); err != nil {
			return err
		}
	}
	return nil
}
