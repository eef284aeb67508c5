package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// maxArchiveFiles bounds the files of an archive that holds an image: a few for each layer.
const maxArchiveFiles = 8 * maxLayers

// files are named files: of a directory or of a tar archive.
type files interface {
	// open opens one; fs.ErrNotExist is wrapped if it isn't there.
	open(name string) (io.ReadCloser, error)
}

// directory is the files of a directory of the host.
type directory struct{ root *os.Root }

func (d directory) open(name string) (io.ReadCloser, error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %q is no file", ErrMalformed, clip(name))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// archive is the files of a tar archive, which is never unpacked: they're read where they lie.
type archive struct {
	file  *os.File
	files map[string]extent
	links map[string]string
}

// extent is where a file lies in an archive.
type extent struct{ offset, length int64 }

// openArchive reads the list of an archive that isn't compressed.
func openArchive(f *os.File) (*archive, error) {
	a := &archive{file: f, files: map[string]extent{}, links: map[string]string{}}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	t := tar.NewReader(f)
	for n := 1; ; n++ {
		h, err := t.Next()
		if err == io.EOF {
			return a, nil
		}
		if err != nil {
			return nil, &Error{Err: malformed(err)}
		}
		if n > maxArchiveFiles {
			return nil, &Error{Err: tooMany("files", int64(n), maxArchiveFiles)}
		}
		if err := a.add(h); err != nil {
			return nil, &Error{Entry: clip(h.Name), Err: err}
		}
	}
}

// add notes an entry, whose content begins where the file is now.
func (a *archive) add(h *tar.Header) error {
	parts, err := split(h.Name)
	if err != nil {
		return err
	}
	name := join(parts)
	switch h.Typeflag {
	case tar.TypeReg:
		at, err := a.file.Seek(0, io.SeekCurrent)
		a.files[name] = extent{at, h.Size}
		return err
	case tar.TypeSymlink:
		target := path.Join(path.Dir(name), h.Linkname)
		if path.IsAbs(h.Linkname) || target == ".." || strings.HasPrefix(target, "../") {
			return fmt.Errorf("%w: a symbolic link to %q", ErrEscape, clip(h.Linkname))
		}
		a.links[name] = target
	case tar.TypeLink:
		if parts, err = split(h.Linkname); err != nil {
			return err
		}
		a.links[name] = join(parts)
	}
	return nil
}

func (a *archive) open(name string) (io.ReadCloser, error) {
	name = path.Clean(name)
	for range maxLinks {
		if e, ok := a.files[name]; ok {
			return io.NopCloser(io.NewSectionReader(a.file, e.offset, e.length)), nil
		}
		target, ok := a.links[name]
		if !ok {
			break
		}
		name = target
	}
	return nil, fmt.Errorf("%q: %w", clip(name), fs.ErrNotExist)
}

// read reads a small file whole; ok is false if it isn't there.
func read(f files, name string) (text []byte, ok bool, err error) {
	r, err := f.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	text, err = readDocument(r)
	return text, err == nil, err
}
