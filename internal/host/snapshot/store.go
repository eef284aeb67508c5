package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/seal"
)

// The limits of a store.
const (
	maxSnapshots    = 4096             // on one node, those that couldn't be made among them
	measureInterval = time.Minute      // between two measurements of all, unless something is removed
	measureRest     = time.Second      // between two of them at least, and
	measureShare    = 10               // this many times what the last one took, up to measureInterval
	measurePatience = 30 * time.Second // for one file
)

// buildSuffix ends the name of a directory that isn't whole.
const buildSuffix = ".new"

// The states of a snapshot, as reports have them.
const (
	Making = "making"
	Ready  = "ready"
	Failed = "failed"
)

// Config is what a Store needs.
type Config struct {
	Dir    string // on the volume with the executions, so that cloning is cheap
	Volume seal.Volume
	Own    func(ctx context.Context, path string) ([]seal.Part, error) // the parts of a file that it shares with no other
	// Template returns the snapshot of a template that has a digest, which stays until give is called; a nil give: there's none. Nil: there never is one.
	Template func(template, digest string) (o Origin, give func())

	Extents   func(ctx context.Context, path string, do func(disk.Extent)) error // of a file
	Templates string                                                             // all templates' directories, each named after its template's label; what they hold counts for no snapshot. "": there are none

	Seal        bool            // the driver shares a memory only as a sealed memfd
	MemoryBytes int64           // of the node
	Promises    *promise.Ledger // of its memory; with Seal

	Changed func() // called after a report has changed; it mustn't block
}

// Store holds the snapshots of this node.
type Store struct {
	cfg    Config
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	entries map[string]*entry
	closed  bool

	sharedBytes int64 // that all shared memories may take

	removed chan struct{} // holds something when blocks have been given back since the last measurement was begun

	measuring sync.Mutex // one measurement at a time: an older one mustn't have the last word. counting and mu may be taken while it's held
	counting  sync.Mutex // guards ledger and younger; mu may be taken while it's held
	ledger    *ledger    // of the last measurement, and with what was counted since
	younger   []string   // snapshots that were counted and weren't ready when the last measurement was begun
}

// entry is one snapshot. The store's mu guards it.
type entry struct {
	Order
	Machine
	state    string
	err      error // a *space.Error: with Failed why, with Ready what is wrong with it
	dir      string
	digest   string // with Ready
	seen     map[string]seal.Inode
	manifest manifest
	bytes    int64    // 0: not measured yet
	loads    int      // machines that are being loaded from it
	files    proof    // with Ready: that all files hold what the manifest says
	disk     proof    // with Ready: that the disk does
	findings findings // on file
	removing bool
	aside    bool       // its directory was put aside: only the report is left
	sharing  sync.Mutex // held while the memory is being shared
	shared   shared
}

// Report is what the node knows of a snapshot.
type Report struct {
	Order
	Machine
	State  string
	Err    error  // a *space.Error: with Failed why it couldn't be made or can't be used any more, with Ready why it can't be loaded as it is
	Digest string // of the manifest, with Ready
	Bytes  int64  // that it counts, with Ready: those that no template and no older snapshot holds; 0: not measured yet
}

// Open reads the snapshots in a directory, which it makes if need be, and removes what isn't whole.
func Open(cfg Config) (*Store, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the snapshots: %w", err)
	}
	dirs, err := os.ReadDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the snapshots: %w", err)
	}
	s := &Store{cfg: cfg, entries: map[string]*entry{}, ledger: newLedger(), removed: make(chan struct{}, 1)}
	for _, d := range dirs {
		if err := s.adopt(d.Name()); err != nil {
			return nil, fmt.Errorf("open the snapshots: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.work.Go(func() { s.measureAlways(ctx) })
	return s, nil
}

// unreadableSuffix ends the name of a directory whose manifest can't be read: it may be the only copy of somebody's work. Only an operator deletes it.
const unreadableSuffix = ".unreadable"

// adopt takes in a directory that another life left.
func (s *Store) adopt(name string) error {
	dir := filepath.Join(s.cfg.Dir, name)
	if label, aside := strings.CutSuffix(name, unreadableSuffix); aside {
		s.report(label, errors.New("it was put aside before"))
		return nil
	}
	if strings.HasSuffix(name, buildSuffix) {
		return s.cfg.Volume.Delete(dir)
	}
	if strings.HasSuffix(name, foundSuffix) {
		return s.sweepFindings(dir)
	}
	e, err := read(dir)
	if err != nil {
		slog.Error("put aside a snapshot that can't be read", "dir", dir, "err", err)
		s.report(name, err)
		return os.Rename(dir, dir+unreadableSuffix)
	}
	e.recall(dir + foundSuffix)
	s.entries[e.Snapshot] = e
	return nil
}

// report has the reports tell of a snapshot that was put aside, by the name of its directory: it's there, and can't be used.
func (s *Store) report(label string, why error) {
	id := string(space.PrefixSnapshot) + "_" + label
	if s.entries[id] != nil || space.CheckID(space.PrefixSnapshot, id) != nil {
		return
	}
	e := &entry{Order: Order{Snapshot: id}}
	e.putAside(why)
	s.entries[id] = e
}

// read looks at a snapshot. A file may be missing: whoever wants to load it is told.
func read(dir string) (*entry, error) {
	m, digest, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	if space.HostLabel(m.Snapshot) != filepath.Base(dir) {
		return nil, fmt.Errorf("it's the manifest of %s", m.Snapshot)
	}
	e := &entry{Order: m.Order, Machine: m.Machine, state: Ready, dir: dir, digest: digest, manifest: m}
	if e.seen, err = e.look(); err != nil {
		slog.Error("a snapshot isn't whole", "snapshot", m.Snapshot, "err", err)
	}
	return e, nil
}

// Close ends what the store does by itself.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
	s.letGo(time.Now().Add(sharedIdle))
}

// letGo lets go of all memories that nobody has loaded for a while.
func (s *Store) letGo(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		s.unshare(e, now)
	}
}

// Reports returns what is known of all snapshots, in the order of their ids.
func (s *Store) Reports() []Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Report
	for _, e := range s.entries {
		if !e.removing {
			out = append(out, e.report())
		}
	}
	slices.SortFunc(out, func(a, b Report) int { return strings.Compare(a.Snapshot, b.Snapshot) })
	return out
}

func (e *entry) report() Report {
	return Report{Order: e.Order, Machine: e.Machine, State: e.state, Err: e.err, Digest: e.digest, Bytes: e.bytes}
}

// Find returns what is known of a snapshot.
func (s *Store) Find(id string) (Report, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[id]
	if !ok || e.removing {
		return Report{}, false
	}
	return e.report(), true
}

// Remove removes a snapshot to its last trace. One that isn't there is no error, and one that is being made isn't made. It may be repeated.
func (s *Store) Remove(id string) error {
	s.mu.Lock()
	e, ok := s.entries[id]
	if !ok {
		s.mu.Unlock()
		return nil
	}
	if e.loads > 0 {
		s.mu.Unlock()
		return space.Errorf(space.CodeConflict, "a machine is being loaded from snapshot %s", id)
	}
	if e.state == Making {
		s.mu.Unlock()
		return space.Errorf(space.CodeConflict, "snapshot %s is being made", id)
	}
	if e.aside { // it was put aside, and what is left of it is an operator's to delete
		delete(s.entries, id)
		s.mu.Unlock()
		s.cfg.Changed()
		return nil
	}
	e.removing = true
	s.unshare(e, time.Now().Add(sharedIdle))
	s.mu.Unlock()
	err := s.delete(e.dir)
	if err == nil {
		err = remove(s.dirOf(id, foundSuffix))
	}
	s.mu.Lock()
	if err != nil { // it's there, and is reported: who ordered the removal may have forgotten it when it works
		e.removing = false
	} else if s.entries[id] == e {
		delete(s.entries, id)
	}
	s.mu.Unlock()
	s.cfg.Changed()
	if err != nil {
		return fmt.Errorf("remove snapshot %s: %w", id, err)
	}
	return nil
}

// delete deletes a snapshot's directory. The volume may give its blocks to the next one at once, which would count too little as long as they're known as the
// deleted one's: all are measured again.
func (s *Store) delete(dir string) error {
	err := s.cfg.Volume.Delete(dir)
	select {
	case s.removed <- struct{}{}:
	default:
	}
	return err
}

// measureAlways measures what the snapshots count, again and again: those that were removed, and templates, leave what they held to others.
func (s *Store) measureAlways(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		s.lookAtAll()
		s.measure(ctx)
		s.letGo(time.Now())
		rest := min(max(measureRest, measureShare*time.Since(began)), measureInterval)
		pause(ctx, rest, nil)
		pause(ctx, measureInterval-rest, s.removed)
	}
}

// pause waits for a while, or for what comes earlier.
func pause(ctx context.Context, d time.Duration, earlier <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-earlier:
	case <-ctx.Done():
	}
}

// dirOf is the directory of a snapshot.
func (s *Store) dirOf(id, suffix string) string {
	return filepath.Join(s.cfg.Dir, space.HostLabel(id)+suffix)
}
