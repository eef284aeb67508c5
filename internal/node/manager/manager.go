package manager

import (
	"context"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/api/gen/host/v1/hostv1connect"
	"github.com/space-platform/space/api/gen/sandbox/v1/sandboxv1connect"
	"github.com/space-platform/space/api/gen/session/v1/sessionv1connect"
	"github.com/space-platform/space/api/gen/upload/v1/uploadv1connect"
	"github.com/space-platform/space/internal/node/relay"
	"github.com/space-platform/space/internal/peer"
)

// MaxReportBytes bounds a Synchronize request, its answer and a Watch message: maxRecords executions of a few hundred bytes each.
const MaxReportBytes = 16 << 20

// Synchronizer is the control plane, as node-api passes it on.
type Synchronizer interface {
	Synchronize(context.Context, *connect.Request[controlv1.SynchronizeRequest]) (*connect.Response[controlv1.SynchronizeResponse], error)
}

// Config is what a Manager works with. All fields are required.
type Config struct {
	Node      string // the node's name, as routes have it
	Records   string // path of the file that holds the runtime records
	Control   Synchronizer
	Host      hostv1connect.HostServiceClient
	Sessions  relay.Attacher // the host's
	Sandboxes relay.Caller   // the host's
	Uploads   relay.Putter   // the host's
}

// Manager is the sbx-manager of one node. Open makes it, Run works, Close lets go of the records.
type Manager struct {
	table     *table
	control   Synchronizer
	host      hostv1connect.HostServiceClient
	sessions  relay.Attacher
	sandboxes relay.Caller
	uploads   relay.Putter
	timing    timing
	removals  removals
	arrived   chan *hostv1.AcknowledgeRequest // to make

	ensures, stops, removes, builds, freezes, puts chan struct{} // a slot per call on the host
}

// timing is the first and the longest waits of the loops.
type timing struct {
	workFirst, workMost   time.Duration
	watchFirst, watchMost time.Duration
	talkFirst, talkMost   time.Duration
	idleFirst             time.Duration
}

var usualTiming = timing{
	workFirst: 200 * time.Millisecond, workMost: 10 * time.Second,
	watchFirst: 50 * time.Millisecond, watchMost: time.Second,
	talkFirst: 50 * time.Millisecond, talkMost: time.Second, idleFirst: 5 * time.Millisecond,
}

// Open loads the runtime records. Another process that still has them open gets a few seconds to let go.
func Open(c Config) (*Manager, error) {
	t, err := openTable(c.Records, c.Node)
	if err != nil {
		return nil, err
	}
	return &Manager{
		table: t, control: c.Control, host: c.Host, sessions: c.Sessions, sandboxes: c.Sandboxes, uploads: c.Uploads, timing: usualTiming, removals: removals{write: t.removed},
		arrived: make(chan *hostv1.AcknowledgeRequest, 1),
		ensures: make(chan struct{}, maxEnsures), stops: make(chan struct{}, maxStops), removes: make(chan struct{}, maxRemoves),
		builds: make(chan struct{}, maxBuilds), freezes: make(chan struct{}, maxFreezes), puts: make(chan struct{}, maxPuts),
	}, nil
}

// Close lets go of the records. Run must have returned.
func (m *Manager) Close() error { return m.table.store.close() }

// Run hears the host, speaks with the control plane and drives every record to what it should be, until ctx ends. It returns when
// all its goroutines have.
func (m *Manager) Run(ctx context.Context) {
	c := newCrew(ctx, m.drive)
	m.table.onKick(c.kick)
	for _, key := range m.table.keys() {
		c.kick(key)
	}
	var loops sync.WaitGroup
	loops.Go(func() { m.watch(ctx) })
	loops.Go(func() { m.synchronize(ctx) })
	loops.Go(func() { m.acknowledge(ctx) })
	loops.Wait()
	c.wait()
}

// Handler serves node-api.
func (m *Manager) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(sessionv1connect.NewSessionServiceHandler(m, peer.HandlerOptions(relay.MaxRequestBytes)))
	mux.Handle(sandboxv1connect.NewSandboxServiceHandler(m, peer.HandlerOptions(relay.MaxCallBytes)))
	mux.Handle(uploadv1connect.NewUploadServiceHandler(m, peer.HandlerOptions(relay.MaxCallBytes)))
	return mux
}
