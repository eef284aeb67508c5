// Package durable writes small files so that after a crash or a power loss there is either the whole old content or the whole new one,
// and so that what was reported as written is still there.
//
// It's for records of a few megabytes at most, each with one writer: two at the same time would share a temporary file. It isn't for
// streams or disk images. Directories are synced too, since a file's name is a change of its directory.
package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrTooLarge is returned by ReadFile and ReadJSON for a file above the caller's limit.
var ErrTooLarge = errors.New("the file is larger than allowed")

// newSuffix is what a file is called until it's complete. A write that was cut off leaves one, and the next write replaces it.
const newSuffix = ".new"

// WriteFile replaces a file's content. When it returns nil the content is on the disk; when it returns an error the file has its old
// content or, if only the last step failed, perhaps the new one. The directory must exist.
//
// System calls: openat(PATH.new, O_CREAT|O_TRUNC|O_NOFOLLOW), fchmod, write, fsync, close, rename, open(DIR), fsync, close; and unlink
// of PATH.new when one of them fails before the rename.
func WriteFile(path string, b []byte, mode fs.FileMode) error {
	return kernel.replace(path, b, mode)
}

// WriteJSON is WriteFile of a value as indented JSON with a line's end. The system calls are the same.
func WriteJSON(path string, v any, mode fs.FileMode) error {
	p, err := PrepareJSON(path, v, mode)
	if err != nil {
		return err
	}
	return p.Publish()
}

// PrepareJSON does the longer part of WriteJSON, for a value of which it's not certain yet that it will be: until it's published nothing has changed.
//
// System calls: those of WriteFile up to the first close.
func PrepareJSON(path string, v any, mode fs.FileMode) (*Prepared, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return kernel.prepare(path, append(b, '\n'), mode)
}

// ReadFile reads a file of at most limit bytes; ErrTooLarge for a larger one, fs.ErrNotExist for none. A symbolic link isn't followed.
//
// System calls: openat(O_NOFOLLOW), read, close.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("read %s: %w: %d bytes", path, ErrTooLarge, limit)
	}
	return b, nil
}

// ReadJSON is ReadFile of a JSON value, which must be the only one in the file. Unknown fields are ignored, so that an older program
// can read a newer one's records.
func ReadJSON(path string, limit int64, v any) error {
	b, err := ReadFile(path, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// Mkdir makes a directory below an existing one, and succeeds if it's there already. Its mode is exact, whatever the umask.
//
// System calls: mkdir, chmod, open(PARENT), fsync, close.
func Mkdir(path string, mode fs.FileMode) error {
	err := os.Mkdir(path, mode)
	if errors.Is(err, fs.ErrExist) {
		return existingDir(path, err)
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Rename gives a file another name, replacing what had it. Both names are on one file system.
//
// System calls: rename, then open(DIR), fsync, close of the new name's directory and, if it's another, of the old one's.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := SyncDir(filepath.Dir(to)); err != nil {
		return err
	}
	if filepath.Dir(from) == filepath.Dir(to) {
		return nil
	}
	return SyncDir(filepath.Dir(from))
}

// Remove removes a file or an empty directory, and succeeds if there is none.
//
// System calls: unlink or rmdir, open(DIR), fsync, close.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes a directory's entries durable: names that were added, changed or removed.
//
// System calls: open(O_DIRECTORY), fsync, close.
func SyncDir(path string) error { return kernel.syncDir(path) }

func existingDir(path string, cause error) error {
	if info, err := os.Lstat(path); err != nil || !info.IsDir() {
		return cause
	}
	return nil
}
