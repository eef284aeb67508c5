package upload

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

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
)

// The limits of a store.
const (
	MaxBytes   = 8 << 30        // of one upload
	maxProject = 8 << 30        // of all of one project
	maxTotal   = 16 << 30       // of all of them
	maxCount   = 500            // uploads
	maxPuts    = 4              // at the same time; others are refused
	minFree    = 1 << 30        // bytes that stay free on the file system
	lifetime   = 24 * time.Hour // of an upload that nobody uses
	sweeping   = 10 * time.Minute
)

// File is a whole upload.
type File struct {
	Path   string
	Bytes  int64
	SHA256 string // in lower-case hex
}

// record is what is on file about an upload. It names the file, so that a new upload takes an old one's place in one step.
type record struct {
	File    string    `json:"file"`
	Bytes   int64     `json:"bytes"`
	SHA256  string    `json:"sha256"`
	Project string    `json:"project"` // whose it is; "" for one of before projects were told
	At      time.Time `json:"at"`      // put, or used last

	uses int
}

// maxRecord bounds a record's file, in bytes.
const maxRecord = 4 << 10

const recordSuffix = ".json"

// Store holds the uploads of this node.
type Store struct {
	dir     string
	now     func() time.Time
	changed func()
	puts    chan struct{} // held by those that put
	cancel  context.CancelFunc
	sweeps  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	uploads map[string]*record
	coming  map[string]int64 // bytes that Puts have reserved, by project
}

// Open reads the uploads in a directory, which it makes if need be, and removes what isn't one. Close ends what it began.
// changed is called when List would say something else; it must not block.
func Open(dir string, changed func()) (*Store, error) { return open(dir, time.Now, changed) }

func open(dir string, now func() time.Time, changed func()) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the uploads: %w", err)
	}
	s := &Store{dir: dir, now: now, changed: changed, puts: make(chan struct{}, maxPuts), uploads: map[string]*record{}, coming: map[string]int64{}}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("open the uploads: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.sweeps.Go(func() { s.keepSweeping(ctx) })
	return s, nil
}

// Close ends the removal of old uploads. No Put may be at work.
func (s *Store) Close() {
	s.cancel()
	s.sweeps.Wait()
}

// load reads all records, and removes files that none names.
func (s *Store) load() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, e := range entries {
		id, ok := idOf(e.Name())
		if !ok {
			continue
		}
		r := new(record)
		err := durable.ReadJSON(s.path(e.Name()), maxRecord, r)
		info, serr := os.Stat(s.path(filepath.Base(r.File)))
		if err != nil || serr != nil || info.Size() != r.Bytes {
			slog.Warn("dropped an upload that isn't whole", "upload", id, "err", errors.Join(err, serr))
			continue
		}
		s.uploads[id] = r
		named[e.Name()], named[filepath.Base(r.File)] = true, true
	}
	for _, e := range entries {
		if !named[e.Name()] {
			if err := os.RemoveAll(s.path(e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

func recordName(id string) string { return space.HostLabel(id) + recordSuffix }

func idOf(name string) (string, bool) {
	label, ok := strings.CutSuffix(name, recordSuffix)
	id := string(space.PrefixUpload) + "_" + label
	return id, ok && space.CheckID(space.PrefixUpload, id) == nil
}

// Use returns an upload, which stays until done is called.
func (s *Store) Use(id string) (_ File, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.uploads[id]
	if !ok {
		return File{}, nil, space.Errorf(space.CodeNotFound, "upload %s isn't on this node: it never came, or has expired", space.Clip(id))
	}
	r.uses++
	r.At = s.now()
	if err := durable.WriteJSON(s.path(recordName(id)), r, 0o600); err != nil {
		slog.Warn("can't note that an upload is used", "upload", id, "err", err) // it may go a day too early
	}
	return File{Path: s.path(r.File), Bytes: r.Bytes, SHA256: r.SHA256}, sync.OnceFunc(func() { s.release(r) }), nil
}

func (s *Store) release(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.uses--
}

func (s *Store) keepSweeping(ctx context.Context) {
	for {
		s.sweep()
		select {
		case <-time.After(sweeping):
		case <-ctx.Done():
			return
		}
	}
}

// Stored is an upload that is whole on the node.
type Stored struct {
	ID    string
	Bytes int64
}

// List returns all uploads in the order of their ids.
func (s *Store) List() []Stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Stored, 0, len(s.uploads))
	for id, r := range s.uploads {
		out = append(out, Stored{ID: id, Bytes: r.Bytes})
	}
	slices.SortFunc(out, func(a, b Stored) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Remove removes uploads, but for those that are being used. Whoever wants those gone says so again. Unknown ones are ignored.
func (s *Store) Remove(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		r, ok := s.uploads[id]
		if !ok || r.uses > 0 {
			continue
		}
		if err := s.remove(id, r); err != nil {
			slog.Warn("can't remove an upload", "upload", id, "err", err)
		}
	}
}

// sweep removes uploads that nobody has used for their lifetime.
func (s *Store) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.uploads {
		if r.uses > 0 || s.now().Sub(r.At) < lifetime {
			continue
		}
		if err := s.remove(id, r); err != nil {
			slog.Warn("can't remove an old upload", "upload", id, "err", err)
		}
	}
}

// remove removes an upload, its record first. mu is held.
func (s *Store) remove(id string, r *record) error {
	if err := durable.Remove(s.path(recordName(id))); err != nil {
		return err
	}
	delete(s.uploads, id)
	s.changed()
	return os.Remove(s.path(r.File))
}

// free is how many bytes the file system has left for uploads; 0 if it doesn't say.
func (s *Store) free() int64 {
	var st unix.Statfs_t
	if unix.Statfs(s.dir, &st) != nil {
		return 0
	}
	return max(0, int64(st.Bavail)*st.Bsize-minFree)
}
