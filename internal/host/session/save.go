package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	space "github.com/space-platform/space"
)

// savedFiles are those of a session that go into a snapshot, beside its output.
var savedFiles = []string{specFile, startedFile, inputEndFile, exitFile, guestFile}

// Save copies the sessions that the guest still knows into a directory, which it makes, with the output that is kept of them: they belong to a snapshot of
// the guest. Nothing of the guest may arrive meanwhile. It returns how many there are.
func (s *Set) Save(dir string) (n int, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, fmt.Errorf("save sessions: %w", err)
	}
	for _, ses := range s.all() {
		if !ses.needsGuest() {
			continue
		}
		if err := ses.save(placeOf(dir, ses.id)); err != nil {
			return 0, fmt.Errorf("save session %s: %w", ses.id, err)
		}
		n++
	}
	return n, nil
}

// WriteOut has the output be on the disk that a Save copies, so that it waits for none of it: the guest stands still then.
func (s *Set) WriteOut() error {
	for _, ses := range s.all() {
		if !ses.needsGuest() {
			continue
		}
		log, err := ses.log()
		if err == nil {
			err = log.WriteOut()
		}
		if err != nil {
			return fmt.Errorf("write out session %s: %w", ses.id, err)
		}
	}
	return nil
}

func (s *Session) save(dir string) error {
	log, err := s.log()
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range savedFiles {
		b, err := os.ReadFile(filepath.Join(s.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return log.CopyTo(dir)
}

// Copy is a session that goes on in a machine that was loaded from a snapshot.
type Copy struct {
	Session string `json:"session"`
	Of      string `json:"of"` // its id in the snapshot
}

// Restore makes the sessions in a snapshot those of an execution, whose place, a directory, isn't there yet. In the sandbox that the snapshot is of they're
// the same sessions. Elsewhere those that run get new ids, and the guest goes on to know them by the old ones.
func Restore(from, place string, same bool) ([]Copy, error) {
	if err := os.MkdirAll(place, 0o700); err != nil {
		return nil, fmt.Errorf("restore sessions: %w", err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, fmt.Errorf("restore sessions: %w", err)
	}
	var out []Copy
	for _, e := range entries {
		of := string(space.PrefixSession) + "_" + e.Name()
		c, err := restore(filepath.Join(from, e.Name()), place, of, same)
		if err != nil {
			return nil, fmt.Errorf("restore session %s: %w", of, err)
		}
		if c != (Copy{}) {
			out = append(out, c)
		}
	}
	return out, nil
}

// restore restores one session. It returns an empty Copy for one that doesn't go on elsewhere: it has ended, or nobody knows that it has begun.
func restore(from, place, of string, same bool) (Copy, error) {
	c := Copy{Session: of, Of: of}
	if !same {
		if !exists(from, startedFile) || exists(from, exitFile) {
			return Copy{}, nil
		}
		c.Session = space.NewID(space.PrefixSession)
	}
	dir := placeOf(place, c.Session)
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		return Copy{}, err
	}
	if err := writeMessage(dir, restoredFile, new(emptypb.Empty)); err != nil {
		return Copy{}, err
	}
	if same || exists(dir, guestFile) {
		return c, nil
	}
	return c, writeMessage(dir, guestFile, wrapperspb.String(of))
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}
