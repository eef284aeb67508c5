package disk

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Reserve is room on a volume that nobody fills, for what must always work: it's a file, of which as much goes as is needed, and comes back.
type Reserve struct {
	path  string
	piece int64

	mu    sync.Mutex // guards what follows, and the file
	bytes int64      // to be kept
	lent  int        // how many need some of it now
}

// smallestPiece is the least that is kept: of what there is too little of, a reserve has as much as there is.
const smallestPiece = 1 << 20

// OpenReserve returns the reserve in a file, with what another life has kept there. The file is made of pieces, of a power of two of at least a MiB in bytes, none of which
// reaches beyond a multiple of that: btrfs frees the room of a piece when all of it is gone, and not before. So that is the least that is lent.
func OpenReserve(path string, piece int64) (*Reserve, error) {
	r := &Reserve{path: path, piece: piece}
	var err error
	r.bytes, err = r.size()
	return r, err
}

// Bytes is how much is to be kept.
func (r *Reserve) Bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// Missing is how much of it isn't there: it's lent, or there is no room for it. Of the room that the volume has, so much isn't free for others.
func (r *Reserve) Missing() (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, err := r.size()
	return max(r.bytes-have, 0), err
}

// Keep says how much is to be kept, and takes as much of it as there is room for. It may be called again and again.
func (r *Reserve) Keep(bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes = bytes
	return r.fit()
}

// Lend gives so much of the room to the caller until done is called, and comes back then as far as there's room left. It may be lent to several.
func (r *Reserve) Lend(bytes int64) (done func() error, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lent++
	return func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lent--
		return r.fit()
	}, r.giveUp(bytes)
}

// giveUp makes the file at least that much shorter. mu is held.
func (r *Reserve) giveUp(bytes int64) error {
	have, err := r.size()
	if err != nil || have == 0 {
		return err
	}
	if err := os.Truncate(r.path, max(have-bytes, 0)/r.piece*r.piece); err != nil {
		return fmt.Errorf("make the volume's reserve smaller: %w", err)
	}
	return Sync(r.path) // the blocks come back with it
}

// fit makes the file as long as it's to be, or as there's room. It doesn't grow while somebody needs room. mu is held.
func (r *Reserve) fit() error {
	have, err := r.size()
	if err != nil {
		return err
	}
	if have > r.bytes {
		if err := r.giveUp(have - r.bytes); err != nil {
			return err
		}
		have = min(have, r.bytes/r.piece*r.piece)
	}
	if have == r.bytes || r.lent > 0 {
		return nil
	}
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, unix.ENOSPC) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("fill the volume's reserve: %w", err)
	}
	defer f.Close()
	if err := grow(f, have, r.bytes, r.piece); err != nil {
		return fmt.Errorf("fill the volume's reserve: %w", err)
	}
	return nil
}

// grow makes a file longer as far as there is room.
func grow(f *os.File, have, want, piece int64) error {
	for most := piece; have < want && most >= smallestPiece; {
		n := min(most, piece-have%piece, want-have)
		err := unix.Fallocate(int(f.Fd()), 0, have, n)
		switch {
		case err == nil:
			have += n
		case errors.Is(err, unix.ENOSPC):
			most /= 2
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
	return f.Truncate(have) // what a try in vain has left behind the end goes
}

// size is how much the file holds. mu is held.
func (r *Reserve) size() (int64, error) {
	info, err := os.Lstat(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at the volume's reserve: %w", err)
	}
	return info.Size(), nil
}
