package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// layer is one archive while it's being applied.
type layer struct {
	tree      *Tree
	root      dir
	number    int  // for errors
	whiteouts bool // whether whiteouts mean something
	brought   seen
	input     *counter // compressed bytes

	parent     string // where the last entry was, since the next is most often there too
	parentWalk *walk
}

// apply puts the entries of a tar archive into the tree, until the archive ends.
func (l *layer) apply(ctx context.Context, archive io.Reader) error {
	defer l.leave()
	t := tar.NewReader(archive)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return l.errorf("", malformed(err))
		}
		if err := l.entry(ctx, h, t); err != nil {
			return l.errorf(h.Name, err)
		}
	}
}

func (l *layer) errorf(entry string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return &Error{Layer: l.number, Entry: clip(entry), Err: err}
}

// malformed marks what the decoders say of an archive; their own limits are ours.
func malformed(err error) error {
	if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrDigest) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}

// entry applies one entry.
func (l *layer) entry(ctx context.Context, h *tar.Header, body io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if l.tree.used.entries++; l.tree.used.entries > l.tree.limits.Entries {
		return tooMany("entries", int64(l.tree.used.entries), int64(l.tree.limits.Entries))
	}
	parts, err := split(h.Name)
	if err != nil {
		return err
	}
	attr, err := attributesOf(h)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return l.rootEntry(h, attr)
	}
	w, err := l.enterParent(parts)
	if err != nil {
		return err
	}
	e := entry{layer: l, dir: w.top(), name: parts[len(parts)-1], depth: len(parts) - 1, header: h, attr: attr}
	if l.whiteouts {
		if done, err := l.whiteout(e.dir, e.name); done || err != nil {
			return err
		}
	}
	if err := e.make(ctx, body); err != nil {
		return err
	}
	l.mark(e.dir.ino, e.name)
	return nil
}

// rootEntry changes the root itself.
func (l *layer) rootEntry(h *tar.Header, a attributes) error {
	if h.Typeflag != tar.TypeDir {
		return fmt.Errorf("%w: the root must be a directory", ErrMalformed)
	}
	l.tree.times[l.root.ino] = a.time
	return a.set(l.root.fd)
}

// whiteout does what a whiteout says; done is false for other entries.
func (l *layer) whiteout(d dir, name string) (done bool, err error) {
	kind, target := classify(name)
	switch kind {
	case plain:
		return false, nil
	case removes:
		return true, l.white(d, target)
	case opaque:
		return true, l.clear(d)
	case ignored:
		return true, nil
	}
	return true, fmt.Errorf("%w: a whiteout of no possible name", ErrMalformed)
}

// enterParent returns the directory of an entry, which stays open until the next entry is elsewhere.
func (l *layer) enterParent(parts []string) (*walk, error) {
	above := parts[:len(parts)-1]
	key := join(above)
	if l.parentWalk != nil && l.parent == key {
		return l.parentWalk, nil
	}
	l.leave()
	w, err := l.enter(above, true)
	if err != nil {
		return nil, err
	}
	l.parent, l.parentWalk = key, w
	return w, nil
}

// leave closes the last entry's directory.
func (l *layer) leave() {
	if l.parentWalk != nil {
		l.parentWalk.close()
		l.parentWalk = nil
	}
}

// mark notes a name as this layer's.
func (l *layer) mark(dir uint64, name string) {
	if l.whiteouts {
		l.brought.add(dir, name)
	}
}

// finish sets the times of all directories, which every entry in them has changed.
func (t *Tree) finish() error {
	return t.each(func(d dir) error {
		at, ok := t.times[d.ino]
		if !ok {
			return nil
		}
		return unix.UtimesNanoAt(d.fd, "", []unix.Timespec{at, at}, unix.AT_EMPTY_PATH)
	})
}
