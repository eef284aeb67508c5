package watch

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/guest/temporary"
	"github.com/space-platform/space/internal/guest/tree"
)

// watchRoot watches the directory and, if wanted, all below it.
func (w *Watcher) watchRoot() error {
	wd, err := w.queue.add(w.root, 0)
	if err != nil {
		return tooMany(err)
	}
	w.top = wd
	w.name(wd, w.root)
	if !w.recursive {
		return nil
	}
	dir, err := os.OpenFile(w.root, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	return w.scan(dir, w.root, 1, w.news)
}

// tooMany says whose limit it is.
func tooMany(err error) error {
	if err == unix.ENOSPC {
		return space.Errorf(space.CodeTooLarge, "the sandbox's kernel watches no more directories (fs.inotify.max_user_watches)")
	}
	return err
}

// watchTree watches a directory below the root and what is in it, and tells what it finds. One that is gone, that is no directory any more, or that the
// user may not read has nothing to tell. A directory that is watched already is left alone, or, if wanted, looked at for others that aren't.
func (w *Watcher) watchTree(p string, depth int, again bool) error {
	wd, err := w.queue.add(p, unix.IN_DONT_FOLLOW)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES, unix.EPERM:
		return nil
	default:
		return w.unwatched(tooMany(err))
	}
	known := w.dirs[wd] == p
	if known && !again {
		return nil
	}
	if !known && (len(w.dirs) >= MaxDirectories || w.bytes > maxPathBytes) || depth > tree.MaxDepth {
		return w.unwatched(space.Errorf(space.CodeTooLarge,
			"a watch sees at most %d directories, %d levels, and %d bytes of their paths", MaxDirectories, tree.MaxDepth, maxPathBytes))
	}
	w.name(wd, p)
	return w.look(wd, p, depth, known)
}

// look looks at what is in a directory that is watched now.
func (w *Watcher) look(wd int32, p string, depth int, known bool) error {
	fd, err := unix.Open(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // gone, or not for this user
	}
	dir := os.NewFile(uintptr(fd), p)
	defer dir.Close()
	if ofKernel(fd) {
		w.queue.remove(wd)
		w.forget(wd)
		return nil
	}
	if known {
		return w.scan(dir, p, depth, w.olds)
	}
	return w.scan(dir, p, depth, w.news)
}

// unwatched ends the watch because there is something that it can't see.
func (w *Watcher) unwatched(err error) error {
	if w.quiet { // it hasn't begun, or has lost events already
		return err
	}
	return w.lost(err)
}

// scan visits what is in a directory, except for uploads.
func (w *Watcher) scan(dir *os.File, p string, depth int, visit func(p string, e os.DirEntry, depth int) error) error {
	for {
		entries, err := dir.ReadDir(256)
		for _, e := range entries {
			if _, ok := temporary.Parse(e.Name()); ok {
				continue
			}
			if err := visit(path.Join(p, e.Name()), e, depth+1); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// news visits what is in a directory that wasn't watched.
func (w *Watcher) news(p string, e os.DirEntry, depth int) error {
	if !w.quiet {
		w.found(p)
		if err := w.tell(Create, p); err != nil {
			return err
		}
	}
	if e.IsDir() {
		return w.watchTree(p, depth, false)
	}
	return nil
}

// olds visits what is in a directory that was watched all the time: only a directory may be unknown.
func (w *Watcher) olds(p string, e os.DirEntry, depth int) error {
	if e.IsDir() {
		return w.watchTree(p, depth, true)
	}
	return nil
}

// kernels are the file systems in which nothing is told, and whose files come and go by themselves.
var kernels = []int64{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC,
	unix.DEVPTS_SUPER_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC,
}

// ofKernel reports whether a directory is in one of them.
func ofKernel(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && slices.Contains(kernels, int64(st.Type))
}
