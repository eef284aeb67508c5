package manager

import (
	"log/slog"
	"slices"

	"google.golang.org/protobuf/proto"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/internal/peer"
)

// hear takes in a Watch message: it is the whole truth about what the host has. An error means that it was not taken in.
func (t *table) hear(m *hostv1.WatchResponse) error {
	h := &hostStatus{listed: t.listed(m), templates: m.GetTemplates(), facts: m.GetFacts(), ends: m.GetSessionEnds(), uploads: m.GetUploads(), snapshots: m.GetSnapshots()}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.host
	t.host = h
	c := t.observed(h)
	t.settleInto(c)
	if err := t.commit(c); err != nil {
		t.host = old
		return err
	}
	t.forgetArrived()
	t.settleSnapshots()
	if c.empty() && (!h.sameBesides(old) || h.firstFigures(old)) {
		t.announce()
	}
	return nil
}

// firstFigures reports whether a message has figures of an execution that had none before. Later ones wait for the next report.
func (h *hostStatus) firstFigures(o *hostStatus) bool {
	for id, s := range h.listed {
		if s.Usage != nil && (o == nil || o.listed[id].Usage == nil) {
			return true
		}
	}
	return false
}

// observed is what a message changes in the records. mu is held.
func (t *table) observed(h *hostStatus) change {
	c := newChange()
	for id, r := range t.records {
		var s *seen
		if l, ok := h.listed[id]; ok && l.Route == r.Route {
			s = &l
		}
		n := observe(r, s, t.now())
		if n.Wanted == wantSuspended && live(n.State) {
			if err := h.snapshotError(n.Snapshot); err != nil {
				n = refuseTurn(n, err)
			}
		}
		if !n.equal(r) {
			c.records[id] = &n
		}
	}
	for id, l := range h.listed {
		if _, known := t.records[id]; !known && l.State != space.ExecutionGone {
			r := adopt(l, t.now())
			c.records[id] = &r
			slog.Warn("the host has an execution that nobody ordered here", "sandbox", l.Route.Sandbox, "execution", id)
		}
	}
	return c
}

// listed reads the executions of a message. One whose route isn't whole or names another node can't be spoken of to anybody, so it's
// only logged.
func (t *table) listed(m *hostv1.WatchResponse) map[string]seen {
	out := make(map[string]seen, len(m.GetExecutions()))
	for _, r := range m.GetExecutions() {
		route, err := t.route(r.GetRoute())
		if err != nil {
			slog.Error("the host reports an execution with a route that can't be one of its own", "execution", r.GetRoute().GetExecution(), "err", err)
			continue
		}
		s := seen{Route: route, State: space.ExecutionState(r.GetState()), Err: problemOf(peer.MessageError(r.GetError())), Usage: r.GetUsage(),
			Snapshot: r.GetSnapshot(), Sessions: r.GetSessions()}
		if r.GetSince() != nil {
			s.Since = r.GetSince().AsTime()
		}
		out[route.Execution] = s
	}
	return out
}

// sameBesides reports whether two messages say the same apart from executions, whose changes show in the records.
func (h *hostStatus) sameBesides(o *hostStatus) bool {
	if o == nil || len(h.templates) != len(o.templates) || !proto.Equal(h.facts, o.facts) {
		return false
	}
	for i := range h.templates {
		if !proto.Equal(h.templates[i], o.templates[i]) {
			return false
		}
	}
	return !h.endsBesides(o) &&
		slices.EqualFunc(h.snapshots, o.snapshots, func(a, b *controlv1.SnapshotReport) bool { return proto.Equal(a, b) }) &&
		slices.EqualFunc(h.uploads, o.uploads, func(a, b *controlv1.UploadReport) bool { return proto.Equal(a, b) })
}

// endsBesides reports whether a message has an end of a session that the one before hadn't. Ends that are gone are no news: they were acknowledged.
func (h *hostStatus) endsBesides(o *hostStatus) bool {
	had := map[string]bool{}
	for _, e := range o.ends {
		had[e.GetSession()] = true
	}
	return slices.ContainsFunc(h.ends, func(e *controlv1.SessionEnd) bool { return !had[e.GetSession()] })
}

// templateReports is the host's word on templates, but for those whose order it hasn't shown yet. mu is held.
func (t *table) templateReports() []*controlv1.TemplateReport {
	var out []*controlv1.TemplateReport
	for _, o := range t.orders {
		if !o.Remove {
			out = append(out, o.report())
		}
	}
	if t.host == nil {
		return out
	}
	for _, r := range t.host.templates {
		if o, ordered := t.orders[r.GetTemplate()]; !ordered || o.Remove {
			out = append(out, r)
		}
	}
	return out
}

// lists reports whether the host's latest message names an execution.
func (h *hostStatus) lists(id string) bool {
	if h == nil {
		return false
	}
	_, ok := h.listed[id]
	return ok
}
