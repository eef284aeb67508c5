package session

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/peer"
)

// The limits of ends.
const (
	maxEnds     = 10_000 // that are kept; those that came first go first
	maxEndsTold = 200    // in one report
)

// endSuffix ends the name of the file of an end.
const endSuffix = ".pb"

// Ends are how sessions of this node ended, each until the control plane has it. An end is on file before the guest forgets the session, so that a
// daemon that dies in between tells it in its next life.
type Ends struct {
	dir     string
	changed func() // called after one was added; it mustn't block

	mu   sync.Mutex // guards what follows, and the files
	ends map[string]end
}

// end is how a session ended, and when this node learnt of it. That orders them: the guest's clock is its tenant's, who could hold their own ends over
// those of others.
type end struct {
	*controlv1.SessionEnd
	arrived time.Time // also the file's
}

// OpenEnds reads what an earlier life has left to tell; dir is made if need be.
func OpenEnds(dir string, changed func()) (*Ends, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the ends of sessions: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the ends of sessions: %w", err)
	}
	e := &Ends{dir: dir, changed: changed, ends: map[string]end{}}
	for _, entry := range entries {
		m, err := readEnd(dir, entry)
		if err != nil {
			os.Remove(filepath.Join(dir, entry.Name()))
			continue
		}
		e.ends[m.GetSession()] = m
	}
	return e, nil
}

func readEnd(dir string, entry fs.DirEntry) (end, error) {
	m := end{SessionEnd: new(controlv1.SessionEnd)}
	info, err := entry.Info()
	if err != nil {
		return m, err
	}
	m.arrived = info.ModTime()
	if _, err := readMessage(dir, entry.Name(), m.SessionEnd); err != nil {
		return m, err
	}
	if fileOf(m.GetSession()) != entry.Name() {
		return m, fmt.Errorf("%s holds the end of another session", entry.Name())
	}
	return m, nil
}

func fileOf(session string) string { return space.HostLabel(session) + endSuffix }

// add keeps how a session has ended; one that is kept already stays as it is. It's nothing to a nil Ends: nobody asks about the sessions of builds.
func (e *Ends) add(ses *Session) {
	if e == nil {
		return
	}
	m := end{ses.ending(), time.Now()}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.ends[ses.id]; ok {
		return
	}
	err := writeMessage(e.dir, fileOf(ses.id), m.SessionEnd)
	if err == nil {
		err = os.Chtimes(filepath.Join(e.dir, fileOf(ses.id)), m.arrived, m.arrived) // by itself it's as coarse as the kernel's tick
	}
	if err != nil { // it's told all the same, if this life lasts
		slog.Error("can't write down how a session ended", "session", ses.id, "err", err)
	}
	e.ends[ses.id] = m
	for len(e.ends) > maxEnds {
		e.drop(e.sorted()[0].GetSession())
	}
	e.changed()
}

// ending is how the session has ended.
func (s *Session) ending() *controlv1.SessionEnd {
	i := s.info()
	m := &controlv1.SessionEnd{Session: s.id, Exit: i.Exit, OutputBytes: i.Output, At: timestamppb.New(i.EndedAt)}
	if i.Exit != nil {
		m.At = i.Exit.GetAt()
	}
	if i.Lost != nil {
		m.Lost = peer.ErrorMessage(i.Lost)
	}
	return m
}

// Untold returns the ends that the control plane doesn't have, those that came first first, as many as a report takes.
func (e *Ends) Untold() []*controlv1.SessionEnd {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.sorted()
	told := make([]*controlv1.SessionEnd, min(len(all), maxEndsTold))
	for i := range told {
		told[i] = all[i].SessionEnd
	}
	return told
}

// sorted returns all, those that came first first. mu is held.
func (e *Ends) sorted() []end {
	return slices.SortedFunc(maps.Values(e.ends), func(a, b end) int {
		return cmp.Or(a.arrived.Compare(b.arrived), strings.Compare(a.GetSession(), b.GetSession()))
	})
}

// Acknowledge lets go of ends that the control plane has, as they were told. Unknown ones are none. That an end isn't told any more is a change, too:
// a report that goes on to tell it is answered at once, so no order could be waited for.
func (e *Ends) Acknowledge(sessions []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := len(e.ends)
	for _, id := range sessions {
		if _, ok := e.ends[id]; ok {
			e.drop(id)
		}
	}
	if len(e.ends) < before {
		e.changed()
	}
}

// drop forgets one. mu is held.
func (e *Ends) drop(id string) {
	delete(e.ends, id)
	if err := os.Remove(filepath.Join(e.dir, fileOf(id))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Warn("can't remove how a session ended", "session", id, "err", err)
	}
}
