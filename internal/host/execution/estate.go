package execution

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/session"
)

// estate is what a sandbox has beyond its executions: the sessions that have ended. It's there as long as the node has any execution of the
// sandbox. A new one begins before the one before is removed, so it goes with the sandbox.
type estate struct {
	dir    string
	limits session.Limits
	log    *slog.Logger
	heirs  int // executions; guarded by the table's mu

	mu    sync.Mutex     // held while the files are opened or removed
	store *session.Store // nil until it's needed
}

// inherit returns the estate of a sandbox for another of its executions, which leaves it at its end. mu is held.
func (t *Table) inherit(sandbox string) *estate {
	s, ok := t.estates[sandbox]
	if !ok {
		s = &estate{
			dir: filepath.Join(t.cfg.Sandboxes, space.HostLabel(sandbox)), limits: t.cfg.Sessions, log: slog.With("sandbox", sandbox),
		}
		t.estates[sandbox] = s
	}
	s.heirs++
	return s
}

// leave says that an execution has nothing to do with its sandbox's estate any more.
func (t *Table) leave(sandbox string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.estates[sandbox]
	if s.heirs--; s.heirs == 0 {
		delete(t.estates, sandbox)
		s.close()
	}
}

// removeIfLast removes the sandbox's estate if no other execution of it is here. One that begins meanwhile finds it empty.
func (t *Table) removeIfLast(sandbox string) error {
	t.mu.Lock()
	s := t.estates[sandbox]
	last := s.heirs == 1
	t.mu.Unlock()
	if !last {
		return nil
	}
	return s.remove()
}

// open returns the sessions, which are read when they're needed first.
func (s *estate) open() (*session.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil {
		return s.store, nil
	}
	store, err := session.OpenStore(s.dir, s.limits, s.log)
	if err != nil {
		return nil, err
	}
	s.store = store
	return store, nil
}

func (s *estate) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil {
		s.store.Close()
		s.store = nil
	}
}

func (s *estate) remove() error {
	s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove what a sandbox has kept: %w", err)
	}
	return nil
}

// sync makes what is kept durable.
func (s *estate) sync() error {
	dir, err := os.Open(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("write out %s: %w", s.dir, err)
	}
	return nil
}

// sweepEstates removes those of sandboxes that have no execution here.
func (t *Table) sweepEstates() error {
	if err := os.MkdirAll(t.cfg.Sandboxes, 0o700); err != nil {
		return fmt.Errorf("open what sandboxes have kept: %w", err)
	}
	entries, err := os.ReadDir(t.cfg.Sandboxes)
	if err != nil {
		return fmt.Errorf("open what sandboxes have kept: %w", err)
	}
	known := map[string]bool{}
	for sandbox := range t.estates {
		known[space.HostLabel(sandbox)] = true
	}
	for _, e := range entries {
		if known[e.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(t.cfg.Sandboxes, e.Name())); err != nil {
			return fmt.Errorf("remove what a sandbox has kept: %w", err)
		}
	}
	return nil
}

// Kept returns the sessions of a sandbox by the route of an execution that may have ended, or never have begun: those that have ended, with
// this one or with one before, and those that run in it. A route that isn't the newest one's is stale.
func (t *Table) Kept(r space.Route) (*session.Store, error) {
	t.mu.Lock()
	s, ok := t.estates[r.Sandbox]
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
	return s.open()
}
