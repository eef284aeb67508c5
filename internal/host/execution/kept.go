package execution

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/session"
)

// keptSessions are a sandbox's sessions: those of executions that have ended, and those of the one that runs. They're there as long as the node
// has any execution of the sandbox. A new one begins before the one before is removed, so they go with the sandbox.
type keptSessions struct {
	dir    string
	limits session.Limits
	log    *slog.Logger
	refs   atomic.Int32 // executions whose removal hasn't come to their files; it grows with the table's mu held

	mu    sync.Mutex     // held while the files are opened or removed; the table's mu isn't taken then
	store *session.Store // nil until it's needed
}

// acquire returns a sandbox's sessions for another of its executions, which releases them when it's removed. mu is held.
func (t *Table) acquire(sandbox string) *keptSessions {
	k, ok := t.kept[sandbox]
	if !ok {
		k = &keptSessions{
			dir: filepath.Join(t.cfg.Sandboxes, space.HostLabel(sandbox)), limits: t.cfg.Sessions, log: slog.With("sandbox", sandbox),
		}
		t.kept[sandbox] = k
	}
	k.refs.Add(1)
	return k
}

// release says that an execution needs its sandbox's sessions no more: it's being removed. It may be repeated.
func (e *execution) release() {
	if !e.released {
		e.released = true
		e.kept.refs.Add(-1)
	}
}

// removeReleased removes a sandbox's sessions unless another execution needs them. One that begins meanwhile finds none.
func (t *Table) removeReleased(sandbox string, k *keptSessions) error {
	if err := k.remove(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.refs.Load() == 0 && t.kept[sandbox] == k {
		delete(t.kept, sandbox)
	}
	return nil
}

func (k *keptSessions) remove() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refs.Load() > 0 {
		return nil
	}
	k.close()
	if err := os.RemoveAll(k.dir); err != nil {
		return fmt.Errorf("remove the sessions of a sandbox: %w", err)
	}
	return nil
}

// open returns the sessions, which are read when they're needed first.
func (k *keptSessions) open() (*session.Store, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.store != nil:
		return k.store, nil
	case k.refs.Load() == 0:
		return nil, space.Errorf(space.CodeExecutionLost, "the sandbox was removed from the node")
	}
	store, err := session.OpenStore(k.dir, k.limits, k.log)
	if err != nil {
		return nil, err
	}
	k.store = store
	return store, nil
}

// close lets go of the files. mu is held.
func (k *keptSessions) close() {
	if k.store != nil {
		k.store.Close()
		k.store = nil
	}
}

// sync makes the sessions of an execution durable. Its files are those that have changed since the one before it has ended.
func (k *keptSessions) sync(ctx context.Context, execution string) error {
	if err := durable.SyncTree(ctx, filepath.Join(k.dir, space.HostLabel(execution))); err != nil {
		return err
	}
	for _, dir := range []string{k.dir, filepath.Dir(k.dir)} {
		if _, err := os.Lstat(dir); err != nil {
			return nil // there was no session
		}
		if err := durable.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// closeKept lets go of all sessions, when no execution has an owner any more.
func (t *Table) closeKept() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.kept {
		k.mu.Lock()
		k.close()
		k.mu.Unlock()
	}
}

// sweepKept removes the sessions of sandboxes that have no execution here.
func (t *Table) sweepKept() error {
	if err := os.MkdirAll(t.cfg.Sandboxes, 0o700); err != nil {
		return fmt.Errorf("open the sessions of sandboxes: %w", err)
	}
	entries, err := os.ReadDir(t.cfg.Sandboxes)
	if err != nil {
		return fmt.Errorf("open the sessions of sandboxes: %w", err)
	}
	known := map[string]bool{}
	for sandbox := range t.kept {
		known[space.HostLabel(sandbox)] = true
	}
	for _, e := range entries {
		if known[e.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(t.cfg.Sandboxes, e.Name())); err != nil {
			return fmt.Errorf("remove the sessions of a sandbox: %w", err)
		}
	}
	return nil
}

// Kept returns the sessions of a sandbox by the route of an execution that may have ended, or never have begun: those that have ended, with
// this one or with one before, and those that run in it. A route that isn't the newest one's is stale.
func (t *Table) Kept(r space.Route) (*session.Store, error) {
	t.mu.Lock()
	k, ok := t.kept[r.Sandbox]
	for _, e := range t.execs {
		if e.route.Sandbox == r.Sandbox && (e.route.Epoch >= r.Epoch || e.route.Execution == r.Execution) {
			if err := r.Match(e.route); err != nil {
				t.mu.Unlock()
				return nil, err
			}
		}
	}
	t.mu.Unlock()
	if !ok {
		return nil, space.Errorf(space.CodeExecutionLost, "the node has nothing of sandbox %s", r.Sandbox)
	}
	return k.open()
}
