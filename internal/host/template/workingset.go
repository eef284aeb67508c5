package template

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/space-platform/space/internal/host/vmm/pager"
)

// workingSet is the path of a snapshot's working set (package pager). It has the name of the snapshot's directory.
func (s *Store) workingSet(b *base) string { return filepath.Join(s.cfg.Sets, filepath.Base(b.dir)) }

// dropWorkingSet removes a snapshot's, or what was recorded of one.
func (s *Store) dropWorkingSet(b *base) error {
	path := s.workingSet(b)
	for _, p := range []string{path, path + pager.RecordSuffix} {
		if err := os.RemoveAll(p); err != nil {
			return fmt.Errorf("remove a working set: %w", err)
		}
	}
	return nil
}

// sweepWorkingSets removes those of snapshots that are gone.
func (s *Store) sweepWorkingSets() error {
	known := map[string]bool{}
	for _, e := range s.templates {
		for _, b := range e.snapshots() {
			known[filepath.Base(b.dir)] = true
		}
	}
	entries, err := os.ReadDir(s.cfg.Sets)
	if err != nil {
		return err
	}
	for _, f := range entries {
		if known[strings.TrimSuffix(f.Name(), pager.RecordSuffix)] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.cfg.Sets, f.Name())); err != nil {
			return fmt.Errorf("remove a working set: %w", err)
		}
	}
	return nil
}
