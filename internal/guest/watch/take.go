package watch

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/guest/temporary"
)

// take tells what an event means.
func (w *Watcher) take(n notice) error {
	dir, known := w.dirs[n.wd]
	if !known {
		return nil // of a directory that isn't watched any more
	}
	if n.name == "" {
		return w.takeSelf(n)
	}
	if replaces, ok := temporary.Parse(n.name); ok {
		if n.has(unix.IN_MOVED_FROM) {
			if len(w.uploads) >= maxUploads {
				clear(w.uploads)
			}
			w.uploads[n.cookie] = replaces
		}
		return nil
	}
	return w.takeName(n, path.Join(dir, n.name))
}

// takeSelf is about a watched directory itself. Those below the root are told of by the directories that they are in.
func (w *Watcher) takeSelf(n notice) error {
	root := n.wd == w.top
	switch {
	case n.has(unix.IN_IGNORED):
		w.forget(n.wd)
	case !root:
	case n.has(unix.IN_ATTRIB):
		return w.tell(Chmod, w.root)
	case n.has(unix.IN_DELETE_SELF | unix.IN_UNMOUNT):
		return w.gone(Remove)
	case n.has(unix.IN_MOVE_SELF):
		return w.gone(Rename)
	}
	return nil
}

// takeName is about a name in a watched directory.
func (w *Watcher) takeName(n notice, p string) error {
	isDir := n.has(unix.IN_ISDIR) && w.recursive
	switch {
	case n.has(unix.IN_CREATE):
		return w.created(p, isDir)
	case n.has(unix.IN_MOVED_TO):
		return w.arrived(n, p, isDir)
	case n.has(unix.IN_MOVED_FROM):
		if isDir {
			w.moving[n.cookie] = moving{p, w.below(p)}
		}
		return w.tell(Rename, p)
	case n.has(unix.IN_DELETE):
		return w.tell(Remove, p)
	case n.has(unix.IN_MODIFY):
		return w.tell(Write, p)
	case n.has(unix.IN_ATTRIB):
		return w.tell(Chmod, p)
	}
	return nil
}

// created is about a new name, unless it was found already.
func (w *Watcher) created(p string, isDir bool) error {
	if w.seen[p] {
		delete(w.seen, p)
		return nil
	}
	if err := w.tell(Create, p); err != nil {
		return err
	}
	if isDir {
		return w.watchTree(p, 1, false)
	}
	return nil
}

// arrived is about a name that something has been moved to.
func (w *Watcher) arrived(n notice, p string, isDir bool) error {
	if replaces, ok := w.uploads[n.cookie]; ok {
		delete(w.uploads, n.cookie)
		return w.uploaded(p, replaces)
	}
	m, ok := w.moving[n.cookie]
	if !ok {
		return w.created(p, isDir)
	}
	delete(w.moving, n.cookie)
	delete(w.seen, p)
	for _, wd := range m.wds {
		if old, ok := w.dirs[wd]; ok {
			w.name(wd, p+strings.TrimPrefix(old, m.from))
		}
	}
	if err := w.tell(Create, p); err != nil {
		return err
	}
	return w.watchTree(p, 1, true) // what was made in it just before the move could not be found by its old path
}

// uploaded tells of an upload what writing the file in its place would have told.
func (w *Watcher) uploaded(p string, replaces bool) error {
	kinds := []Kind{Create, Chmod, Write}
	switch {
	case replaces:
		kinds = kinds[2:]
	case w.seen[p]:
		delete(w.seen, p)
		kinds = kinds[1:]
	}
	for _, k := range kinds {
		if err := w.tell(k, p); err != nil {
			return err
		}
	}
	return nil
}

// below lists the watches of a directory and of all below it.
func (w *Watcher) below(p string) []int32 {
	var wds []int32
	for wd, dir := range w.dirs {
		if dir == p || strings.HasPrefix(dir, p+"/") {
			wds = append(wds, wd)
		}
	}
	return wds
}

// drained is called when everything that has happened was read: what was on its way has left.
func (w *Watcher) drained() {
	for _, m := range w.moving {
		for _, wd := range m.wds {
			w.queue.remove(wd)
			w.forget(wd)
		}
	}
	w.settle()
}

// settle forgets what is only needed until everything was read.
func (w *Watcher) settle() {
	w.seenBytes = 0
	w.seen, w.moving = map[string]bool{}, map[uint32]moving{}
}

// name gives a watched directory its path.
func (w *Watcher) name(wd int32, p string) {
	w.forget(wd)
	w.dirs[wd] = p
	w.bytes += len(p)
}

// forget is for a directory that isn't watched any more.
func (w *Watcher) forget(wd int32) {
	w.bytes -= len(w.dirs[wd])
	delete(w.dirs, wd)
}

// found notes that a path was told although its own event may still come. When nothing is remembered any more such paths are told twice.
func (w *Watcher) found(p string) {
	if w.seenBytes += len(p); w.seenBytes > maxSeenBytes {
		clear(w.seen)
		w.seenBytes = len(p)
	}
	w.seen[p] = true
}
