package image

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// implied is the mode of directories that an archive takes for granted.
const implied = 0o755

// walk goes from the root to a directory of the tree, a part at a time.
type walk struct {
	layer *layer
	make  bool  // directories that aren't there
	stack []dir // the root first; the root's descriptor is the tree's
	links int
}

// enter returns the directory of a path, whose links are followed as a process sees them whose root is the tree. The caller closes
// the walk.
func (l *layer) enter(parts []string, makeDirs bool) (*walk, error) {
	w := &walk{layer: l, make: makeDirs, stack: []dir{l.root}}
	rest := slices.Clone(parts)
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		more, err := w.step(part)
		if err != nil {
			w.close()
			return nil, err
		}
		rest = append(more, rest...)
	}
	return w, nil
}

// step takes one part. What it returns is to be walked next: a link's target.
func (w *walk) step(part string) (more []string, err error) {
	if part == ".." {
		return nil, w.up()
	}
	d, err := openDir(w.top().fd, part)
	if err == unix.ENOENT && w.make {
		d, err = w.makeDir(part)
	}
	if err == unix.ELOOP || err == unix.ENOTDIR {
		return w.follow(part)
	}
	if err != nil {
		return nil, fmt.Errorf("enter %q: %w", clip(part), err)
	}
	if w.make {
		w.layer.mark(w.top().ino, part)
	}
	w.stack = append(w.stack, d)
	if len(w.stack)-1 > maxDepth {
		return nil, tooMany("directories deep", int64(len(w.stack)-1), maxDepth)
	}
	return nil, nil
}

func (w *walk) up() error {
	if len(w.stack) == 1 {
		return fmt.Errorf("%w: by a symbolic link on its path", ErrEscape)
	}
	unix.Close(w.top().fd)
	w.stack = w.stack[:len(w.stack)-1]
	return nil
}

func (w *walk) makeDir(name string) (dir, error) {
	if err := unix.Mkdirat(w.top().fd, name, implied); err != nil {
		return dir{}, err
	}
	d, err := openDir(w.top().fd, name)
	if err != nil {
		return dir{}, err
	}
	delete(w.layer.tree.times, d.ino)
	if err := unix.Fchmod(d.fd, implied); err != nil { // whatever the umask
		unix.Close(d.fd)
		return dir{}, err
	}
	return d, nil
}

// follow returns the parts of a link's target; an absolute one begins at the root.
func (w *walk) follow(name string) ([]string, error) {
	target := make([]byte, maxName)
	n, err := unix.Readlinkat(w.top().fd, name, target)
	if err == unix.EINVAL {
		return nil, fmt.Errorf("%w: %q on its path is not a directory", ErrMalformed, clip(name))
	}
	if err != nil {
		return nil, fmt.Errorf("follow %q: %w", clip(name), err)
	}
	if w.links++; w.links > maxLinks {
		return nil, tooMany("symbolic links on a path", int64(w.links), maxLinks)
	}
	if target[0] == '/' {
		w.reset()
	}
	var parts []string
	for part := range strings.SplitSeq(string(target[:n]), "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	return parts, nil
}

func (w *walk) top() dir { return w.stack[len(w.stack)-1] }

// reset goes back to the root.
func (w *walk) reset() {
	for _, d := range w.stack[1:] {
		unix.Close(d.fd)
	}
	w.stack = w.stack[:1]
}

func (w *walk) close() { w.reset() }
