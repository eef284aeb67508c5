package snapshot

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/space-platform/space/internal/durable"
)

// foundSuffix ends the name of a file beside a snapshot's directory, which itself can't be changed. It says what is wrong with what its files hold: that is found when they're
// read, and the next life, which may not read them for months, isn't to take them for whole.
const foundSuffix = ".found"

// maxFindings bounds such a file, in bytes.
const maxFindings = 64 << 10

// findings is what reading a snapshot's files has brought to light; empty: nothing.
type findings struct {
	Disk  string `json:"disk,omitempty"`
	Files string `json:"files,omitempty"` // memory, state and sessions
}

// keepFindings puts on file what was found, or that nothing is wrong any more.
func (s *Store) keepFindings(e *entry) {
	disk, diskKnown := e.disk.known()
	files, filesKnown := e.files.known()
	if !diskKnown || !filesKnown {
		return // somebody reads; next time
	}
	now := findings{Disk: textOf(disk), Files: textOf(files)}
	s.mu.Lock()
	news := e.findings != now && s.entries[e.Snapshot] == e && !e.removing
	s.mu.Unlock()
	if !news {
		return
	}
	var err error
	if name := s.dirOf(e.Snapshot, foundSuffix); now == (findings{}) {
		err = remove(name)
	} else {
		err = durable.WriteJSON(name, now, 0o600)
	}
	if err != nil {
		slog.Warn("can't note what a snapshot's files were found to hold", "snapshot", e.Snapshot, "err", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.findings = now
}

// recall takes in what an earlier life found. It holds until the files are read again.
func (e *entry) recall(path string) {
	var f findings
	if err := durable.ReadJSON(path, maxFindings, &f); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			slog.Warn("can't read what a snapshot's files were found to hold", "snapshot", e.Snapshot, "err", err)
		}
		return
	}
	e.findings = f
	if f.Disk != "" {
		e.disk.before = errors.New(f.Disk)
	}
	if f.Files != "" {
		e.files.before = errors.New(f.Files)
	}
	e.err = e.lookAtFiles()
}

// sweepFindings removes what was found of a snapshot that is gone.
func (s *Store) sweepFindings(path string) error {
	if _, err := os.Lstat(strings.TrimSuffix(path, foundSuffix)); errors.Is(err, fs.ErrNotExist) {
		return remove(path)
	}
	return nil
}

// remove removes a file that needn't be there.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
