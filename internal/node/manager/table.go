package manager

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
)

// Limits of what a node keeps.
const (
	maxRecords        = 8192
	maxTemplateOrders = 256
	maxStreams        = 1024 // of a kind
	maxSandboxStreams = 128  // of a kind, of one sandbox
)

// table is the runtime records in memory, and all decisions about them. Each change is on disk before it can be seen here, but for what needn't
// outlive the process (see record.passing).
type table struct {
	store *store
	node  string
	now   func() time.Time
	kick  func(key string) // tells the workers that a key's record changed; called with mu held, never blocks
	grace time.Duration    // see stream
	share int              // of a sandbox: maxSandboxStreams

	// mu guards what is below, and is held while a change is written: whoever holds it sees records, streams and disk agree.
	mu      sync.Mutex
	records map[string]record        // by execution
	newest  map[string]string        // sandbox → its execution of the highest epoch
	orders  map[string]templateOrder // by template

	snapshots map[string]snapshotOrder // by snapshot
	active    map[string]time.Time     // when something last passed between clients and an execution, by execution
	host      *hostStatus              // nil until the host was heard in this life
	arrived   map[string]bool          // sessions whose ends the control plane has, and the host lists still
	streams   map[*stream]struct{}
	version   uint64        // of what a report says
	changed   chan struct{} // closed when version grows
}

// hostStatus is the host's latest Watch message.
type hostStatus struct {
	listed    map[string]seen // by execution
	templates []*controlv1.TemplateReport
	facts     *controlv1.NodeFacts
	ends      []*controlv1.SessionEnd // that the control plane hasn't been told of for sure
	uploads   []*controlv1.UploadReport
	snapshots []*controlv1.SnapshotReport
}

func openTable(path, node string) (*table, error) {
	s, err := openStore(path)
	if err != nil {
		return nil, err
	}
	records, orders, err := s.load()
	if err != nil {
		s.close()
		return nil, err
	}
	t := &table{
		store: s, node: node, now: time.Now, kick: func(string) {}, grace: streamGrace, share: maxSandboxStreams,
		records: records, orders: orders, snapshots: map[string]snapshotOrder{}, active: map[string]time.Time{}, streams: map[*stream]struct{}{}, arrived: map[string]bool{}, version: 1, changed: make(chan struct{}),
	}
	t.index()
	return t, nil
}

// index finds each sandbox's newest execution. mu is held.
func (t *table) index() {
	t.newest = make(map[string]string, len(t.records))
	for id, r := range t.records {
		if n, ok := t.records[t.newest[r.Route.Sandbox]]; !ok || r.Route.Epoch > n.Route.Epoch {
			t.newest[r.Route.Sandbox] = id
		}
	}
}

// commit writes a change, makes it visible, ends the streams that it shuts out and wakes the workers of what it touches. mu is held.
func (t *table) commit(c change) error {
	if c.empty() {
		return nil
	}
	if err := t.store.write(c); err != nil {
		return err
	}
	t.show(c)
	return nil
}

// show makes a change visible that is written. mu is held.
func (t *table) show(c change) {
	put(t.records, c.records)
	put(t.orders, c.orders)
	t.forgetActive()
	t.index()
	t.endStreams()
	t.announce()
	for key := range c.records {
		t.kick(key)
	}
	for key := range c.orders {
		t.kick(key)
	}
}

func put[T any](into map[string]T, values map[string]*T) {
	for k, v := range values {
		if v == nil {
			delete(into, k)
		} else {
			into[k] = *v
		}
	}
}

// announce says that a new report would differ from the last one. mu is held.
func (t *table) announce() {
	t.version++
	close(t.changed)
	t.changed = make(chan struct{})
}

// onKick sets who is told that a key's record has changed. kick must not block.
func (t *table) onKick(kick func(key string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kick = kick
}

// keys returns everything that may have work to do.
func (t *table) keys() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Keys(t.records)), slices.Collect(maps.Keys(t.orders)))
}

// lacks returns what a key's record still needs, and the record.
func (t *table) lacks(key string) (action, record, templateOrder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o, ok := t.snapshots[key]; ok {
		return decideSnapshot(o), record{}, templateOrder{}
	}
	if o, ok := t.orders[key]; ok {
		return decideTemplate(o), record{}, o
	}
	r, ok := t.records[key]
	if !ok {
		return actNone, record{}, templateOrder{}
	}
	return decide(r), r, templateOrder{}
}

// snapshotOrder returns what was ordered about a snapshot.
func (t *table) snapshotOrder(id string) snapshotOrder {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.snapshots[id]
}

// failed notes that the host refused EnsureExecution for good.
func (t *table) failed(id string, err error) error {
	return t.update(id, func(r record) record { return fail(r, err, t.now()) })
}

// removed notes that the host has nothing left of executions.
func (t *table) removed(ids []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := newChange()
	for _, id := range ids {
		if r, ok := t.records[id]; ok && r.Wanted == wantRemoved && !r.Removed {
			r.Removed = true
			c.records[id] = &r
		}
	}
	return t.commit(c)
}

func (t *table) update(id string, next func(record) record) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.records[id]
	if !ok {
		return nil
	}
	c := newChange()
	if n := next(r); !n.equal(r) {
		c.records[id] = &n
	}
	return t.commit(c)
}

// built notes that the host accepted a template's order, or refused it for good. A refused removal is dropped: the host's report shows that
// the template is still there, and the control plane orders again what it still wants.
func (t *table) built(id string, refused error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.orders[id]
	if !ok {
		return nil
	}
	if refused == nil {
		o.called = t.now()
	}
	if o.Err = problemOf(refused); o.Err != nil && o.secret {
		o.Order, o.secret = "", false
	}
	c := newChange()
	c.orders[id] = &o
	if refused != nil && o.Remove {
		c.orders[id] = nil
	}
	if err := t.commit(c); err != nil {
		return fmt.Errorf("note the order of template %s: %w", id, err)
	}
	return nil
}

// settle drops the template orders for which the host's own report stands by now.
func (t *table) settle() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := newChange()
	t.settleInto(c)
	return t.commit(c)
}

func (t *table) settleInto(c change) {
	for id, o := range t.orders {
		if o.settled(t.host.template(id), t.now()) {
			c.orders[id] = nil
		}
	}
}

// template returns the state of a template on the host, "" if it doesn't show it.
func (h *hostStatus) template(id string) string {
	if h == nil {
		return ""
	}
	for _, r := range h.templates {
		if r.GetTemplate() == id {
			return r.GetState()
		}
	}
	return ""
}
