package watch

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/guest/failure"
)

// Limits of one watch.
const (
	MaxDirectories = 16_384  // that it sees; the kernel may allow fewer, for all watches of the machine
	maxPathBytes   = 8 << 20 // of their paths
	maxSeenBytes   = 4 << 20 // of paths that are remembered while the queue never gets empty
)

// Kind is what happened to a path.
type Kind string

// The kinds. A rename is told of the old path; the new one is created.
const (
	Create   Kind = "create"
	Write    Kind = "write"
	Remove   Kind = "remove"
	Rename   Kind = "rename"
	Chmod    Kind = "chmod"    // mode, owner, times or links have changed
	Overflow Kind = "overflow" // events were lost: look at everything again
)

// Event is one of them.
type Event struct {
	Kind Kind
	Path string // absolute
}

// Watcher watches one directory.
type Watcher struct {
	root      string
	recursive bool
	emit      func(Event) error
	queue     *queue
	top       int32            // the root's
	dirs      map[int32]string // all that are watched, with their paths
	bytes     int              // of those paths
	quiet     bool             // what is there is only watched, not told

	uploads map[uint32]bool // uploads that take their name, at most maxUploads; whether they replace a file

	// What is only needed until everything that has happened was read:
	seen      map[string]bool   // paths that were told because they were found, and whose own event may still come
	seenBytes int               // of those paths
	moving    map[uint32]moving // directories that have left their place and may appear at another
}

// maxUploads bounds what is remembered of uploads: a name that one leaves is followed at once by the one that it takes, in the same directory, though not always in what is read
// at once. Those that take none that is seen are few: somebody moves them away.
const maxUploads = 1024

// moving is a directory on its way.
type moving struct {
	from string
	wds  []int32 // of it and all below
}

// Open begins to watch: what happens after it has returned will be told by Run. The path is absolute; links in it are followed.
// Errors: *space.Error.
func Open(path string, recursive bool, emit func(Event) error) (*Watcher, error) {
	w := &Watcher{root: path, recursive: recursive, emit: emit}
	if err := w.begin(); err != nil {
		return nil, failure.Of("watch", path, err)
	}
	return w, nil
}

// begin opens a queue and watches what is there.
func (w *Watcher) begin() error {
	q, err := openQueue()
	if err != nil {
		return err
	}
	w.queue, w.dirs, w.bytes, w.uploads = q, map[int32]string{}, 0, map[uint32]bool{}
	w.settle()
	w.quiet = true
	defer func() { w.quiet = false }()
	if err := w.watchRoot(); err != nil {
		q.f.Close()
		return err
	}
	return nil
}

// Close ends the watch.
func (w *Watcher) Close() { w.queue.f.Close() }

// Run tells what happens until ctx ends, emit fails, or the directory itself is gone: then the error is a not_found.
func (w *Watcher) Run(ctx context.Context) error {
	for {
		notices, err := w.read(ctx)
		if err != nil {
			return err
		}
		if err := w.takeAll(notices); err != nil {
			return err
		}
		if w.queue.empty() {
			w.drained()
		}
	}
}

func (w *Watcher) takeAll(notices []notice) error {
	for _, n := range notices {
		if n.has(unix.IN_Q_OVERFLOW) {
			return w.overflow() // what comes after it is of a queue that isn't there any more, and was seen
		}
		if err := w.take(n); err != nil {
			return err
		}
	}
	return nil
}

// read waits for events, or for ctx's end.
func (w *Watcher) read(ctx context.Context) ([]notice, error) {
	stop := context.AfterFunc(ctx, func() { w.queue.f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	notices, err := w.queue.read()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", failure.Clip(w.root), err)
	}
	return notices, nil
}

func (w *Watcher) tell(k Kind, path string) error { return w.emit(Event{k, path}) }

// overflow begins anew after events were lost. When it's told, everything that comes is seen again.
func (w *Watcher) overflow() error {
	w.queue.f.Close()
	if err := w.begin(); err != nil {
		return w.lost(err)
	}
	return w.tell(Overflow, w.root)
}

// lost ends a watch that can't go on, after it said that there is more than it has told.
func (w *Watcher) lost(err error) error {
	if err := w.tell(Overflow, w.root); err != nil {
		return err
	}
	return failure.Of("watch", w.root, err)
}

// gone ends a watch whose directory isn't there any more.
func (w *Watcher) gone(k Kind) error {
	if err := w.tell(k, w.root); err != nil {
		return err
	}
	return space.Errorf(space.CodeNotFound, "watch %s: the directory is gone", failure.Clip(w.root))
}
