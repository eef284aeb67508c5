package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	space "github.com/space-platform/space"
)

// maxKeptSessions is how many sessions of executions that have ended are kept for one sandbox. Beyond it those that ended first go, with all
// that is known of them.
const maxKeptSessions = 10_000

// Store keeps the sessions of one sandbox: a Set for each of its executions, in a directory of its own. What an execution leaves behind stays
// until the sandbox is deleted, within limits that hold for all of them together.
type Store struct {
	dir       string
	limits    Limits
	log       *slog.Logger
	retention *retention
	most      int // maxKeptSessions

	mu   sync.Mutex      // guards what follows
	sets map[string]*Set // by the label of the execution: those that have ended, and those that somebody has asked for
}

// OpenStore reads what the executions in dir that have ended left behind; dir is made if need be.
func OpenStore(dir string, limits Limits, log *slog.Logger) (*Store, error) {
	limits = limits.orDefaults()
	s := &Store{
		dir: dir, limits: limits, log: log, retention: &retention{limit: limits.KeptBytes, log: log}, most: maxKeptSessions, sets: map[string]*Set{},
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the sessions of a sandbox: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the sessions of a sandbox: %w", err)
	}
	var all []*Session
	for _, e := range entries {
		if _, err := os.Lstat(filepath.Join(dir, e.Name(), overFile)); errors.Is(err, fs.ErrNotExist) {
			continue // its owner opens it
		}
		set, ended, err := open(filepath.Join(dir, e.Name()), limits, s.retention, log)
		if err != nil {
			return nil, err
		}
		s.sets[e.Name()], all = set, append(all, ended...)
	}
	s.retention.fill(all)
	s.trim()
	return s, nil
}

// Set returns the sessions of an execution, which its owner goes on with.
func (s *Store) Set(execution string) (*Set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := space.HostLabel(execution)
	if set, ok := s.sets[name]; ok {
		return set, nil
	}
	set, ended, err := open(s.Place(execution), s.limits, s.retention, s.log)
	if err != nil {
		return nil, err
	}
	s.retention.fill(ended)
	set.over = s.trim
	s.sets[name] = set
	return set, nil
}

// Place is where an execution's sessions are, or will be.
func (s *Store) Place(execution string) string {
	return filepath.Join(s.dir, space.HostLabel(execution))
}

// Drop removes the sessions of an execution that nobody has seen.
func (s *Store) Drop(execution string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := space.HostLabel(execution)
	if set, ok := s.sets[name]; ok {
		set.Close()
		for _, ses := range set.all() {
			s.retention.remove(ses)
		}
		delete(s.sets, name)
	}
	if err := os.RemoveAll(s.Place(execution)); err != nil {
		return fmt.Errorf("drop the sessions of execution %s: %w", execution, err)
	}
	return nil
}

// Attach sends what is kept of a session from an offset on, and then how it ended. It never starts one.
func (s *Store) Attach(ctx context.Context, r Request, send Send) error {
	r.Spec = nil
	for _, set := range s.opened() {
		if set.has(r.Session) {
			return set.Attach(ctx, r, send)
		}
	}
	return errNotKept(r.Session)
}

// errNotKept is the answer for a session of which nothing is left.
func errNotKept(id string) *space.Error {
	return space.Errorf(space.CodeSessionLost, "session %s has ended, and nothing of it is kept any more", id)
}

// List returns the newest sessions of all executions, as Set.List does.
func (s *Store) List() []Info {
	var all []*Session
	for _, set := range s.opened() {
		all = append(all, set.all()...)
	}
	return list(all)
}

func (s *Store) opened() []*Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Set
	for _, set := range s.sets {
		out = append(out, set)
	}
	return out
}

// trim removes the sessions that ended first of executions that have ended, while there are too many.
func (s *Store) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Session
	of := map[*Session]*Set{}
	for _, set := range s.sets {
		if !set.isOver() {
			continue
		}
		for _, ses := range set.all() {
			of[ses] = set
			all = append(all, ses)
		}
	}
	if len(all) <= s.most {
		return
	}
	byEnd(all)
	for _, ses := range slices.Clone(all[:len(all)-s.most]) {
		s.retention.remove(ses)
		if err := of[ses].remove(ses); err != nil {
			s.log.Warn("can't remove an ended session", "session", ses.id, "err", err)
		}
	}
}

// Close lets go of all files, as Set.Close does.
func (s *Store) Close() {
	for _, set := range s.opened() {
		set.Close()
	}
}
