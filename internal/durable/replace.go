package durable

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// calls are the steps of a write. The failure table makes each of them fail.
type calls struct {
	create  func(path string, mode fs.FileMode) (*os.File, error)
	write   func(f *os.File, b []byte) (int, error)
	sync    func(f *os.File) error
	close   func(f *os.File) error
	rename  func(from, to string) error
	syncDir func(path string) error
}

var kernel = calls{create: create, write: (*os.File).Write, sync: (*os.File).Sync, close: (*os.File).Close, rename: os.Rename, syncDir: syncDir}

func (c calls) replace(path string, b []byte, mode fs.FileMode) error {
	p, err := c.prepare(path, b, mode)
	if err != nil {
		return err
	}
	return p.Publish()
}

// Prepared is a new content of a file that is on the disk, and not yet the file's. A crash leaves it to the next write.
type Prepared struct {
	path  string
	calls calls
}

func (c calls) prepare(path string, b []byte, mode fs.FileMode) (*Prepared, error) {
	tmp := path + newSuffix
	if err := c.fill(tmp, b, mode); err != nil {
		os.Remove(tmp) // what can't be removed is replaced by the next write
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return &Prepared{path: path, calls: c}, nil
}

// Publish makes the content the file's. Errors are those of WriteFile's last steps.
//
// System calls: rename, open(DIR), fsync, close; and unlink of PATH.new when the first fails.
func (p *Prepared) Publish() error {
	if err := p.calls.rename(p.path+newSuffix, p.path); err != nil {
		os.Remove(p.path + newSuffix)
		return fmt.Errorf("write %s: %w", p.path, err)
	}
	if err := p.calls.syncDir(filepath.Dir(p.path)); err != nil {
		return fmt.Errorf("write %s: %w", p.path, err)
	}
	return nil
}

// fill makes the new file with its content on the disk.
func (c calls) fill(tmp string, b []byte, mode fs.FileMode) error {
	f, err := c.create(tmp, mode)
	if err != nil {
		return err
	}
	if _, err := c.write(f, b); err != nil {
		f.Close()
		return err
	}
	if err := c.sync(f); err != nil {
		f.Close()
		return err
	}
	return c.close(f)
}

func create(path string, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, mode)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(mode); err != nil { // one left by a cut-off write keeps its mode, and the umask takes bits away
		f.Close()
		return nil, err
	}
	return f, nil
}

func syncDir(path string) error {
	d, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
