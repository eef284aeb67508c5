package nodesync_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
)

func reported(id string, state record.TemplateState, log ...record.LogLine) nodesync.TemplateReport {
	r := nodesync.TemplateReport{TemplateSeen: record.TemplateSeen{ID: id, Status: record.TemplateStatus{State: state}}, Log: log}
	if state == record.TemplateFailed {
		r.Status.Error = space.Errorf(space.CodeInternal, "no")
	}
	return r
}

// TestDecideRemovesTemplates has a node report what isn't wanted.
func TestDecideRemovesTemplates(t *testing.T) {
	remove := []nodesync.Order{{Kind: nodesync.RemoveTemplate, Template: "tpl_x"}}
	using := func(want record.Want) []record.WantedExecution {
		return []record.WantedExecution{{Route: newRoute(), Template: "tpl_x", Want: want, Recorded: space.ExecutionFailed}}
	}
	for _, x := range []struct {
		name   string
		wanted record.Wanted
		state  record.TemplateState
		orders []nodesync.Order
	}{
		{"deleted", record.Wanted{}, record.TemplateReady, remove},
		{"deleted while it's built", record.Wanted{}, record.TemplateBuilding, remove},
		{"replaced after it failed", record.Wanted{}, record.TemplateFailed, remove},
		{"wanted", record.Wanted{Templates: []record.WantedTemplate{{ID: "tpl_x"}}}, record.TemplateReady, nil},
		{"wanted, and failed", record.Wanted{Templates: []record.WantedTemplate{{ID: "tpl_x", Recorded: record.TemplateStatus{State: record.TemplateFailed}}}}, record.TemplateFailed, nil},
		{"deleted with a machine that is there", record.Wanted{Executions: using(record.WantRunning)}, record.TemplateReady, nil},
		{"deleted with a machine that is going", record.Wanted{Executions: using(record.WantGone)}, record.TemplateReady, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := nodesync.Decide(x.wanted, nodesync.Report{Templates: []nodesync.TemplateReport{reported("tpl_x", x.state)}}, nil, now)
			if diff := cmp.Diff(x.orders, p.Orders); diff != "" {
				t.Error(diff)
			}
			for _, o := range p.Orders {
				if !p.Repeats[o] {
					t.Error("the node has it, so it has heard")
				}
			}
		})
	}
}

func line(number int64, second int) record.LogLine {
	return record.LogLine{Number: number, At: now.Add(time.Duration(second) * time.Second), Text: fmt.Sprintf("line %d of %d", number, second)}
}

func TestDecideLogs(t *testing.T) {
	head := record.LogHead{Newest: 2, NewestAt: line(2, 2).At}
	for _, x := range []struct {
		name     string
		recorded record.TemplateState
		head     record.LogHead
		state    record.TemplateState
		lines    []record.LogLine
		fresh    []record.LogLine
		anew     bool
		seen     bool // the state is written
	}{
		{name: "first", lines: []record.LogLine{line(1, 1), line(2, 2)}, state: record.TemplateBuilding, fresh: []record.LogLine{line(1, 1), line(2, 2)}, seen: true},
		{name: "next", recorded: record.TemplateBuilding, head: head, lines: []record.LogLine{line(3, 3)}, state: record.TemplateBuilding, fresh: []record.LogLine{line(3, 3)}},
		{name: "again", recorded: record.TemplateBuilding, head: head, lines: []record.LogLine{line(1, 1), line(2, 2)}, state: record.TemplateBuilding},
		{name: "again and next", recorded: record.TemplateBuilding, head: head, lines: []record.LogLine{line(2, 2), line(3, 2)}, state: record.TemplateBuilding, fresh: []record.LogLine{line(3, 2)}},
		{name: "another build", recorded: record.TemplateBuilding, head: head, lines: []record.LogLine{line(1, 9)}, state: record.TemplateBuilding, fresh: []record.LogLine{line(1, 9)}, anew: true},
		{name: "the end waits", recorded: record.TemplateBuilding, head: head, lines: []record.LogLine{line(3, 3)}, state: record.TemplateReady, fresh: []record.LogLine{line(3, 3)}},
		{name: "a failure waits", recorded: record.TemplateBuilding, head: head, lines: []record.LogLine{line(3, 3)}, state: record.TemplateFailed, fresh: []record.LogLine{line(3, 3)}},
		{name: "the end doesn't wait for what was had", recorded: record.TemplateBuilding, head: head, lines: []record.LogLine{line(2, 2)}, state: record.TemplateReady, seen: true},
		{name: "late", recorded: record.TemplateFailed, head: head, lines: []record.LogLine{line(3, 3)}, state: record.TemplateFailed, fresh: []record.LogLine{line(3, 3)}},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := record.Wanted{Templates: []record.WantedTemplate{{ID: "tpl_x", Recorded: record.TemplateStatus{State: x.recorded}, Log: x.head}}}
			p := nodesync.Decide(w, nodesync.Report{Complete: true, Templates: []nodesync.TemplateReport{reported("tpl_x", x.state, x.lines...)}}, nil, now)
			var want []record.LogSeen
			if x.fresh != nil {
				want = []record.LogSeen{{Template: "tpl_x", Anew: x.anew, Lines: x.fresh}}
			}
			if diff := cmp.Diff(want, p.Logs); diff != "" {
				t.Error(diff)
			}
			if got := p.LogsReceived["tpl_x"]; got != x.lines[len(x.lines)-1].Number {
				t.Errorf("acknowledged up to %d", got)
			}
			if (len(p.Templates) > 0) != x.seen {
				t.Errorf("seen: %+v", p.Templates)
			}
		})
	}
}

// TestUnknownLogIsAcknowledged has a node report lines of what isn't wanted: it needn't send them again.
func TestUnknownLogIsAcknowledged(t *testing.T) {
	p := nodesync.Decide(record.Wanted{}, nodesync.Report{Templates: []nodesync.TemplateReport{reported("tpl_x", record.TemplateBuilding, line(7, 1))}}, nil, now)
	if p.LogsReceived["tpl_x"] != 7 || len(p.Logs) > 0 {
		t.Errorf("%+v", p)
	}
}

// forge is a control plane and a node that builds templates, whose messages are lost, late and repeated, whose builds fail, and whose volume
// is replaced.
type forge struct {
	rows    map[string]*templateRow
	order   []string
	node    map[string]*builtTemplate
	doubted map[string]bool
	clock   time.Time
	stale   nodesync.Report
}

// templateRow is what the control plane has of a template.
type templateRow struct {
	wanted   bool
	recorded record.TemplateStatus
	head     record.LogHead
	log      []string // of the newest build
}

// builtTemplate is what the node has of one.
type builtTemplate struct {
	state    record.TemplateState
	log      []record.LogLine // whole
	received int64
}

func newForge() *forge {
	return &forge{rows: map[string]*templateRow{}, node: map[string]*builtTemplate{}, clock: now}
}

func (f *forge) wanted() record.Wanted {
	var out record.Wanted
	for _, id := range f.order {
		if row := f.rows[id]; row.wanted {
			out.Templates = append(out.Templates, record.WantedTemplate{ID: id, Recorded: row.recorded, Log: row.head})
		}
	}
	return out
}

func (f *forge) report() nodesync.Report {
	out := nodesync.Report{Complete: true}
	for _, id := range f.order {
		b, there := f.node[id]
		if !there {
			continue
		}
		var lines []record.LogLine
		for _, l := range b.log {
			if l.Number > b.received && len(lines) < 2 {
				lines = append(lines, l)
			}
		}
		r := reported(id, b.state, lines...)
		if b.state == record.TemplateReady {
			r.Status.Digest = "sha256:1"
		}
		out.Templates = append(out.Templates, r)
	}
	return out
}

// exchange lets a report reach the control plane, and its answer the node unless that is lost.
func (f *forge) exchange(t *rapid.T, report nodesync.Report, heard bool) nodesync.Plan {
	p := nodesync.Decide(f.wanted(), report, f.doubted, f.clock)
	f.doubted = p.Doubts
	for _, l := range p.Logs {
		f.append(t, l)
	}
	for _, s := range p.Templates {
		f.see(t, s)
	}
	if heard {
		f.obey(p)
	}
	return p
}

func (f *forge) append(t *rapid.T, l record.LogSeen) {
	row := f.rows[l.Template]
	if l.Anew {
		row.log = nil
	} else if len(row.log) > 0 && l.Lines[0].Number <= row.head.Newest {
		t.Fatalf("line %d comes after line %d", l.Lines[0].Number, row.head.Newest)
	}
	for _, line := range l.Lines {
		row.log = append(row.log, line.Text)
		row.head = record.LogHead{Newest: line.Number, NewestAt: line.At}
	}
}

func (f *forge) see(t *rapid.T, s record.TemplateSeen) {
	row := f.rows[s.ID]
	if !row.wanted || row.recorded.State == record.TemplateFailed {
		t.Fatalf("%s was seen of a template that nobody wants or that failed", s.Status.State)
	}
	row.recorded = s.Status
	row.recorded.Error = nil // as it is read back
}

func (f *forge) obey(p nodesync.Plan) {
	for id, n := range p.LogsReceived {
		if b := f.node[id]; b != nil && n <= int64(len(b.log)) {
			b.received = max(b.received, n)
		}
	}
	for _, o := range p.Orders {
		b := f.node[o.Template]
		switch {
		case o.Kind == nodesync.RemoveTemplate:
			delete(f.node, o.Template)
		case b == nil || b.state == record.TemplateFailed:
			f.node[o.Template] = &builtTemplate{state: record.TemplateBuilding}
		}
	}
}

// say lets a build print lines.
func (f *forge) say(id string, n int) {
	b := f.node[id]
	for range n {
		f.clock = f.clock.Add(time.Millisecond)
		b.log = append(b.log, record.LogLine{Number: int64(len(b.log) + 1), At: f.clock, Text: fmt.Sprintf("%s at %s", id, f.clock)})
	}
}

// some picks a template of those that the node has in a state; "" if there's none.
func (f *forge) some(t *rapid.T, state record.TemplateState) string {
	var there []string
	for _, id := range f.order {
		if b := f.node[id]; b != nil && b.state == state {
			there = append(there, id)
		}
	}
	if len(there) == 0 {
		return ""
	}
	return rapid.SampledFrom(there).Draw(t, "template")
}

// end moves a build that runs.
func (f *forge) end(t *rapid.T, to record.TemplateState) {
	if id := f.some(t, record.TemplateBuilding); id != "" {
		f.say(id, rapid.IntRange(0, 3).Draw(t, "last lines"))
		f.node[id].state = to
	}
}

// settle lets everything arrive and every build end well, and holds the outcome to what is wanted.
func (f *forge) settle(t *rapid.T) {
	for range 40 {
		f.exchange(t, f.report(), true)
		for id, b := range f.node {
			if b.state == record.TemplateBuilding {
				f.say(id, 1)
				b.state = record.TemplateReady
			}
		}
	}
	for _, id := range f.order {
		row, b := f.rows[id], f.node[id]
		switch {
		case !row.wanted && b != nil:
			t.Fatalf("deleted, but the node has it %s", b.state)
		case !row.wanted || row.recorded.State == record.TemplateFailed:
		case b == nil || b.state != row.recorded.State || b.state != record.TemplateReady:
			t.Fatalf("recorded %s with a node that has %+v", row.recorded.State, b)
		default:
			f.compareLogs(t, row, b)
		}
	}
	if p := f.exchange(t, f.report(), true); len(p.Templates)+len(p.Logs)+len(p.Orders) > 0 {
		t.Fatalf("a settled world has news: %+v", p)
	}
}

// compareLogs holds what is recorded to the node's log. A build that printed nothing leaves the log of the one before.
func (f *forge) compareLogs(t *rapid.T, row *templateRow, b *builtTemplate) {
	if len(b.log) == 0 {
		return
	}
	var want []string
	for _, l := range b.log {
		want = append(want, l.Text)
	}
	if diff := cmp.Diff(want, row.log); diff != "" {
		t.Fatalf("the log differs from the node's: %s", diff)
	}
}

func TestForge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newForge()
		exchanged := false
		t.Repeat(map[string]func(*rapid.T){
			"order": func(*rapid.T) {
				id := fmt.Sprintf("tpl_%d", len(f.order))
				f.rows[id] = &templateRow{wanted: true}
				f.order = append(f.order, id)
			},
			"delete": func(t *rapid.T) {
				if len(f.order) > 0 {
					f.rows[rapid.SampledFrom(f.order).Draw(t, "template")].wanted = false
				}
			},
			"synchronize": func(t *rapid.T) {
				f.stale = f.report()
				f.exchange(t, f.stale, rapid.Bool().Draw(t, "heard"))
				exchanged = true
			},
			"a late report": func(t *rapid.T) {
				if exchanged {
					f.exchange(t, f.stale, false)
					exchanged = false
				}
			},
			"prints": func(t *rapid.T) {
				if id := f.some(t, record.TemplateBuilding); id != "" {
					f.say(id, rapid.IntRange(1, 5).Draw(t, "lines"))
				}
			},
			"is ready": func(t *rapid.T) { f.end(t, record.TemplateReady) },
			"fails":    func(t *rapid.T) { f.end(t, record.TemplateFailed) },
			"is interrupted": func(t *rapid.T) {
				if id := f.some(t, record.TemplateBuilding); id != "" {
					delete(f.node, id)
				}
			},
			"is built anew": func(t *rapid.T) {
				if id := f.some(t, record.TemplateReady); id != "" {
					f.node[id] = &builtTemplate{state: record.TemplateBuilding}
				}
			},
			"vanishes": func(t *rapid.T) {
				if id := f.some(t, record.TemplateReady); id != "" {
					delete(f.node, id)
				}
			},
			"forgets what was received": func(t *rapid.T) {
				if id := f.some(t, record.TemplateBuilding); id != "" {
					f.node[id].received = 0
				}
			},
		})
		f.settle(t)
	})
}
