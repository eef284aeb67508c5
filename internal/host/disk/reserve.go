package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Reserve is room on a volume that nobody fills, for what must always work: it's a file, which goes when its room is needed, and comes back.
type Reserve struct {
	Path  string
	Bytes int64

	mu    sync.Mutex // guards what follows, and the file
	users int        // who need the room now
}

// Fill makes the file if nobody needs its room and the volume has so much left. It's no error if it doesn't.
func (r *Reserve) Fill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fill()
}

// fill is Fill; mu is held.
func (r *Reserve) fill() error {
	if _, err := os.Lstat(r.Path); err == nil || r.users > 0 {
		return nil
	}
	f, err := os.OpenFile(r.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("fill the volume's reserve: %w", err)
	}
	err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, r.Bytes), f.Close())
	if err == nil {
		return nil
	}
	rerr := os.Remove(r.Path)
	if errors.Is(err, unix.ENOSPC) {
		return rerr
	}
	return fmt.Errorf("fill the volume's reserve: %w", errors.Join(err, rerr))
}

// Use gives the room to the caller until done is called, and kept anew at once if there's some left. It may be used by several.
func (r *Reserve) Use() (done func() error, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users++
	done = func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.users--
		return r.fill()
	}
	if err := os.Remove(r.Path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return done, nil
		}
		return done, fmt.Errorf("use the volume's reserve: %w", err)
	}
	return done, Sync(r.Path) // the blocks come back with it
}
