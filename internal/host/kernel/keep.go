package kernel

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
)

// keepNewest removes what matches a pattern except for the newest few.
func keepNewest(pattern string, keep int) error {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	newestFirst(paths)
	for _, p := range paths[min(keep, len(paths)):] {
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	return nil
}

// newestFirst sorts paths by when they were written; one that vanished comes last.
func newestFirst(paths []string) {
	written := func(p string) int64 {
		info, err := os.Stat(p)
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(cmp.Compare(written(b), written(a)), cmp.Compare(a, b)) })
}
