package e2b

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/gen/e2b/filesystem"
	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

const (
	// maxWatchers bounds the watchers that are polled, of all sandboxes; watchersEach those of one.
	maxWatchers, watchersEach = 2_000, 16
	// maxWatched bounds the events that one of them keeps for its client.
	maxWatched = 10_000
	// watcherIdle is how long a watcher waits for a client to ask.
	watcherIdle = 10 * time.Minute
	// watchReady bounds the beginning of a watch.
	watchReady = 30 * time.Second
	// A client that asks gets what has happened until then: settle is how long nothing may have come for that, and settleMost bounds the waiting.
	settle, settleMost = 30 * time.Millisecond, time.Second
	// eventsAhead is how many events of a watch are read before the client has taken them.
	eventsAhead = 16
)

// kinds are E2B's for the platform's. An overflow has none: what it says is said as an error.
var kinds = map[string]filesystem.EventType{
	"create": filesystem.EventType_EVENT_TYPE_CREATE, "write": filesystem.EventType_EVENT_TYPE_WRITE, "remove": filesystem.EventType_EVENT_TYPE_REMOVE,
	"rename": filesystem.EventType_EVENT_TYPE_RENAME, "chmod": filesystem.EventType_EVENT_TYPE_CHMOD,
}

// eventReady is the platform's word for that nothing is missed from now on.
const eventReady = "ready"

var errOverflow = connect.NewError(connect.CodeDataLoss, errors.New("events were lost, since more happened than was kept: look at the directory, and watch it anew"))

// watched checks what is to be watched, and returns its path.
func (g guest) watched(ctx context.Context, p string, networkMounts bool) (string, error) {
	if networkMounts {
		return "", connect.NewError(connect.CodeUnimplemented, errors.New("allow_network_mounts: sandboxes have no network mounts"))
	}
	e, err := g.follow(ctx, inGuest(p))
	if err != nil {
		return "", g.fileRefusal(ctx, err)
	}
	if e.Type != api.FileEntryTypeDirectory {
		return "", connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s is not a directory", space.Clip(e.Path)))
	}
	return e.Path, nil
}

// change is an event in E2B's words; nil if it has none.
func change(root string, e client.FileEvent) *filesystem.FilesystemEvent {
	kind, ok := kinds[e.Kind]
	if !ok {
		return nil
	}
	name := strings.TrimPrefix(strings.TrimPrefix(e.Path, root), "/")
	if name == "" {
		name = "."
	}
	return &filesystem.FilesystemEvent{Name: name, Type: kind}
}

// WatchDir implements filesystemconnect.FilesystemHandler.
func (s filesystemService) WatchDir(ctx context.Context, r *connect.Request[filesystem.WatchDirRequest], out *connect.ServerStream[filesystem.WatchDirResponse]) error {
	g := guestOf(ctx)
	root, err := g.watched(ctx, r.Msg.GetPath(), r.Msg.GetAllowNetworkMounts())
	if err != nil {
		return err
	}
	ctx, cancel := early(ctx)
	defer cancel()
	err = s.tell(ctx, g, root, r.Msg.GetRecursive(), r.Header(), out)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("the watch's time is over"))
	}
	return g.refusal(ctx, err)
}

func (s filesystemService) tell(ctx context.Context, g guest, root string, recursive bool, h http.Header, out *connect.ServerStream[filesystem.WatchDirResponse]) error {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan changed, eventsAhead)
	go func() {
		defer close(events)
		for e, err := range g.plane.WatchFiles(ctx, root, recursive, g.as()) {
			select {
			case events <- changed{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		cancel()
		for range events { // until the reader has ended
		}
	}()
	defer streaming(streamWatch)()
	quiet := time.NewTimer(interval(h))
	defer quiet.Stop()
	for {
		var m *filesystem.WatchDirResponse
		select {
		case e, ok := <-events:
			switch {
			case !ok:
				return ctx.Err()
			case e.err != nil:
				return e.err
			case e.Kind == "overflow":
				return errOverflow
			case e.Kind == eventReady:
				m = &filesystem.WatchDirResponse{Event: &filesystem.WatchDirResponse_Start{Start: &filesystem.WatchDirResponse_StartEvent{}}}
			default:
				if c := change(root, e.FileEvent); c != nil {
					m = &filesystem.WatchDirResponse{Event: &filesystem.WatchDirResponse_Filesystem{Filesystem: c}}
				}
			}
		case <-quiet.C:
			m = &filesystem.WatchDirResponse{Event: &filesystem.WatchDirResponse_Keepalive{Keepalive: &filesystem.WatchDirResponse_KeepAlive{}}}
		case <-ctx.Done():
			return ctx.Err()
		}
		if m != nil {
			if err := out.Send(m); err != nil {
				return err
			}
		}
		quiet.Reset(interval(h))
	}
}

// changed is an event of the platform, or why there are no more.
type changed struct {
	client.FileEvent
	err error
}

// watcher is a watch that its client polls.
type watcher struct {
	sandbox string
	cancel  context.CancelFunc
	idle    *time.Timer // ends it when nobody has asked for long

	mu     sync.Mutex
	events []*filesystem.FilesystemEvent
	err    error     // why there are no more
	last   time.Time // when the newest event came
}

// watchers are those of all sandboxes.
type watchers struct {
	mu   sync.Mutex
	byID map[string]*watcher
}

func newWatchers() *watchers { return &watchers{byID: map[string]*watcher{}} }

// add keeps a watcher, if there's room.
func (w *watchers) add(v *watcher) (id string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := 0
	for _, other := range w.byID {
		if other.sandbox == v.sandbox {
			mine++
		}
	}
	if mine >= watchersEach || len(w.byID) >= maxWatchers {
		return "", connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the sandbox has %d watchers, and all together %d: stop some", mine, len(w.byID)))
	}
	id = strings.ToLower(rand.Text())
	w.byID[id] = v
	openWatchers.WithLabelValues().Set(float64(len(w.byID)))
	v.idle = time.AfterFunc(watcherIdle, func() { w.remove(v.sandbox, id) })
	return id, nil
}

// get returns a sandbox's watcher, which lives on for a while.
func (w *watchers) get(sandbox, id string) (*watcher, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.byID[id]
	if v == nil || v.sandbox != sandbox {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("watcher with id %s not found", space.Clip(id)))
	}
	v.idle.Reset(watcherIdle)
	return v, nil
}

// remove ends a watcher.
func (w *watchers) remove(sandbox, id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.byID[id]
	if v == nil || v.sandbox != sandbox {
		return false
	}
	delete(w.byID, id)
	openWatchers.WithLabelValues().Set(float64(len(w.byID)))
	v.idle.Stop()
	v.cancel()
	return true
}

// CreateWatcher implements filesystemconnect.FilesystemHandler. It answers when nothing is missed any more.
func (s filesystemService) CreateWatcher(ctx context.Context, r *connect.Request[filesystem.CreateWatcherRequest]) (*connect.Response[filesystem.CreateWatcherResponse], error) {
	g := guestOf(ctx)
	root, err := g.watched(ctx, r.Msg.GetPath(), r.Msg.GetAllowNetworkMounts())
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	v := &watcher{sandbox: g.sandbox, cancel: cancel}
	id, err := s.f.watchers.add(v)
	if err != nil {
		cancel()
		return nil, err
	}
	ready := make(chan error, 1)
	go v.collect(life, g, root, r.Msg.GetRecursive(), ready)
	ctx, stop := context.WithTimeout(ctx, watchReady)
	defer stop()
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.f.watchers.remove(g.sandbox, id)
		return nil, g.refusal(ctx, err)
	}
	return connect.NewResponse(&filesystem.CreateWatcherResponse{WatcherId: id}), nil
}

// collect keeps what happens until the watcher is removed. It tells ready once, when it has begun or couldn't.
func (v *watcher) collect(ctx context.Context, g guest, root string, recursive bool, ready chan<- error) {
	begun := false
	for e, err := range g.plane.WatchFiles(ctx, root, recursive, g.as()) {
		switch {
		case err != nil && !begun:
			ready <- err
			return
		case err != nil:
			v.end(g.refusal(ctx, err))
			return
		case e.Kind == eventReady && !begun:
			begun = true
			ready <- nil
		case !v.add(root, e):
			return
		}
	}
}

// add keeps an event; false if there are too many.
func (v *watcher) add(root string, e client.FileEvent) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last = time.Now()
	if e.Kind == "overflow" || len(v.events) >= maxWatched {
		v.events, v.err = nil, errOverflow
		return false
	}
	if c := change(root, e); c != nil {
		v.events = append(v.events, c)
	}
	return true
}

func (v *watcher) end(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.err = err
}

// take returns what has come, once nothing has for a moment, and empties it.
func (v *watcher) take(ctx context.Context) ([]*filesystem.FilesystemEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, settleMost)
	defer cancel()
	from := time.Now()
	for {
		v.mu.Lock()
		since := from
		if v.last.After(since) {
			since = v.last
		}
		left := settle - time.Since(since)
		if left <= 0 || v.err != nil || ctx.Err() != nil {
			out, err := v.events, v.err
			v.events = nil
			v.mu.Unlock()
			if len(out) > 0 {
				err = nil // it's told next time
			}
			return out, err
		}
		v.mu.Unlock()
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// GetWatcherEvents implements filesystemconnect.FilesystemHandler.
func (s filesystemService) GetWatcherEvents(ctx context.Context, r *connect.Request[filesystem.GetWatcherEventsRequest]) (*connect.Response[filesystem.GetWatcherEventsResponse], error) {
	g := guestOf(ctx)
	v, err := s.f.watchers.get(g.sandbox, r.Msg.GetWatcherId())
	if err != nil {
		return nil, err
	}
	// What happened in the sandbox before it answers this was seen there before, too.
	if err := g.answers(ctx); err != nil {
		return nil, g.refusal(ctx, err)
	}
	events, err := v.take(ctx)
	return respond(&filesystem.GetWatcherEventsResponse{Events: events}, err)
}

// RemoveWatcher implements filesystemconnect.FilesystemHandler.
func (s filesystemService) RemoveWatcher(ctx context.Context, r *connect.Request[filesystem.RemoveWatcherRequest]) (*connect.Response[filesystem.RemoveWatcherResponse], error) {
	g := guestOf(ctx)
	if !s.f.watchers.remove(g.sandbox, r.Msg.GetWatcherId()) {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("watcher with id %s not found", space.Clip(r.Msg.GetWatcherId())))
	}
	return connect.NewResponse(&filesystem.RemoveWatcherResponse{}), nil
}
