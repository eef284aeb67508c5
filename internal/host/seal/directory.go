package seal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/durable"
)

// Volume is the file system that sealed directories are on.
type Volume interface {
	// Make makes an empty subvolume.
	Make(path string) error
	// Freeze makes a subvolume read-only.
	Freeze(path string) error
	// Delete removes a subvolume with all that's in it, or a directory. None is no error.
	Delete(path string) error
}

// Publish makes a directory whose files are durable read-only, and gives it its name, which is beside it: all that btrfs allows then. Who finds the name
// finds all of it.
func Publish(v Volume, building, final string) error {
	if filepath.Dir(building) != filepath.Dir(final) {
		return fmt.Errorf("publish %s: it isn't beside %s", building, final)
	}
	if err := v.Freeze(building); err != nil {
		return err
	}
	if err := os.Rename(building, final); err != nil {
		return fmt.Errorf("publish %s: %w", final, err)
	}
	return durable.SyncDir(filepath.Dir(final))
}

// ManifestDigest names a manifest by its text.
func ManifestDigest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Inode tells a file's content from another one, or a later one: nothing changes it in a directory that is read-only, and whoever does
// nevertheless changes its time.
type Inode struct {
	device, number uint64
	Bytes          int64
	changed        unix.Timespec
}

// InodeOf looks at a file.
func InodeOf(path string) (Inode, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Inode{}, fmt.Errorf("look at %s: %w", path, err)
	}
	return Inode{device: uint64(st.Dev), number: st.Ino, Bytes: st.Size, changed: st.Ctim}, nil
}
