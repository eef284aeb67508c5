package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// Cache keeps blobs by the repository that gave them and their digests in a directory. A repository's blobs are for those only whom its registry has
// just shown an image there: a digest alone opens none, or whoever knows one could have another tenant's layer by naming it in a registry of their
// own. When it's full, those go that were used longest ago. Any number of processes use it at a time.
type Cache struct {
	Dir     string
	Limit   int64 // bytes of all blobs; a larger blob isn't taken
	MinFree int64 // bytes that stay free on the file system
}

// errNoSpace is what a full file system says.
const errNoSpace = unix.ENOSPC

// partSuffix ends the name of a blob that isn't whole. Whoever fetches it holds a lock on it.
const partSuffix = ".part"

// Open returns a blob of a repository; fs.ErrNotExist is wrapped if it isn't there.
func (c Cache) Open(repository string, h v1.Hash) (*os.File, error) {
	name := c.name(repository, h)
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	os.Chtimes(name, now, now) // so that it's not the next one to go
	return f, nil
}

func (c Cache) name(repository string, h v1.Hash) string {
	sum := sha256.Sum256([]byte(repository + "@" + h.String()))
	return filepath.Join(c.Dir, hex.EncodeToString(sum[:]))
}

// Put keeps a blob whose size is known, if its bytes have the digest, and returns it for reading.
func (c Cache) Put(ctx context.Context, repository string, h v1.Hash, size int64, blob io.Reader) (*os.File, error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep a layer: %w", err)
	}
	if err := c.makeRoom(size); err != nil {
		return nil, err
	}
	f, err := c.newPart()
	if err != nil {
		return nil, fmt.Errorf("keep a layer: %w", err)
	}
	err = receive(ctx, f, blob, h, size)
	if err == nil {
		err = os.Rename(f.Name(), c.name(repository, h))
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		os.Remove(f.Name())
		f.Close()
		return nil, err
	}
	return f, nil
}

// newPart makes a file for a blob that is on its way, and locks it for as long as it's open: the lock goes with a process that dies.
func (c Cache) newPart() (*os.File, error) {
	f, err := os.CreateTemp(c.Dir, "*"+partSuffix)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil { // somebody takes it for a dead one's: see removePart
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", filepath.Base(f.Name()), err)
	}
	return f, nil
}

// removePart removes what nobody fetches any more.
func removePart(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && time.Since(info.ModTime()) > partPause && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		os.Remove(path)
	}
}

// partPause is how old a blob that isn't whole must be to be taken for a dead process's: one that was just made isn't locked yet.
const partPause = time.Minute

// receive copies a blob and compares its size and digest.
func receive(ctx context.Context, to io.Writer, blob io.Reader, h v1.Hash, size int64) error {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), &contextReader{ctx, io.LimitReader(blob, size+1)})
	switch {
	case err != nil && n == size: // a reader that compares the digest itself says so at the end
		return fmt.Errorf("%w: the blob %s: %w", ErrDigest, h, err)
	case err != nil:
		return err
	case n < size:
		return io.ErrUnexpectedEOF
	case n > size || h.Algorithm != "sha256" || hex.EncodeToString(sum.Sum(nil)) != h.Hex:
		return fmt.Errorf("%w: the blob %s", ErrDigest, h)
	}
	return nil
}

// keptBlob is a blob of the cache.
type keptBlob struct {
	path string
	size int64
	used time.Time
}

// makeRoom removes old blobs until there is room for another.
func (c Cache) makeRoom(size int64) error {
	if size > c.Limit {
		return tooMany("bytes of a layer", size, c.Limit)
	}
	all, total, err := c.blobs()
	if err != nil {
		return fmt.Errorf("make room for a layer: %w", err)
	}
	for _, b := range all {
		if total+size <= c.Limit && c.free() >= size+c.MinFree {
			return nil
		}
		if err := os.Remove(b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("make room for a layer: %w", err)
		}
		total -= b.size
	}
	if free := c.free(); free < size+c.MinFree {
		return fmt.Errorf("make room for a layer of %d bytes: %w", size, errNoSpace)
	}
	return nil
}

// blobs returns all blobs, those first that were used longest ago. Unfinished ones are removed.
func (c Cache) blobs() (all []keptBlob, total int64, err error) {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range entries {
		path := filepath.Join(c.Dir, e.Name())
		if strings.HasSuffix(e.Name(), partSuffix) {
			removePart(path)
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		all = append(all, keptBlob{path, info.Size(), info.ModTime()})
		total += info.Size()
	}
	slices.SortFunc(all, func(a, b keptBlob) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path)) })
	return all, total, nil
}

// free is how many bytes the file system has left; 0 if it doesn't say.
func (c Cache) free() int64 {
	var s unix.Statfs_t
	if unix.Statfs(c.Dir, &s) != nil {
		return 0
	}
	return int64(s.Bavail) * s.Bsize
}
