package template

import (
	"context"
	"log/slog"
	"time"

	"github.com/space-platform/space/internal/host/rootfs"
)

// Limits of the snapshots of other shapes.
const (
	maxShapes  = 4                // of one template; the one that was used longest ago makes room
	shapePause = 10 * time.Minute // before a shape is tried again that couldn't be made
)

// shape is a template's snapshot of another shape. The store's mu guards it.
type shape struct {
	base   *base     // nil while there is none
	job    *job      // that makes it; nil if none does
	used   time.Time // or ordered
	failed time.Time // zero if it didn't
}

// BuildShape makes a snapshot of a template for machines of another size, in the background, unless there is one, it's being made, or it
// could not be made a little while ago. Whoever asks can do nothing about it, so nothing is said.
func (s *Store) BuildShape(template string, size rootfs.Size) {
	s.mu.Lock()
	e, err := s.ready(template)
	if err != nil || s.closed || checkSize(size) != nil || size == e.Size || size.DiskBytes < e.Size.DiskBytes {
		s.mu.Unlock()
		return
	}
	if x, ok := e.shapes[size]; ok && (x.job != nil || x.base != nil || time.Since(x.failed) < shapePause) {
		s.mu.Unlock()
		return
	}
	gone := e.makeRoom()
	x := &shape{used: time.Now()}
	e.shapes[size] = x
	x.job = s.start(template, background, size, 0, func(ctx context.Context, j *job) { s.buildShape(ctx, j, e, x, size) })
	s.mu.Unlock()
	if gone != nil {
		s.destroy(gone) // what stays is removed at the next Open
	}
}

// makeRoom drops the shape that was used longest ago, if there is no room for another. mu is held.
func (e *entry) makeRoom() *base {
	if len(e.shapes) < maxShapes {
		return nil
	}
	var oldest rootfs.Size
	for size, x := range e.shapes {
		if o := e.shapes[oldest]; x.job == nil && (o == nil || x.used.Before(o.used)) {
			oldest = size
		}
	}
	x := e.shapes[oldest]
	if x == nil {
		return nil // all are being made
	}
	delete(e.shapes, oldest)
	return x.base
}

// dropShapes takes all finished shapes from a template. mu is held.
func (e *entry) dropShapes() []*base {
	var out []*base
	for size, x := range e.shapes {
		if x.base != nil {
			out = append(out, x.base)
		}
		if x.job == nil {
			delete(e.shapes, size)
		}
	}
	return out
}

func (s *Store) buildShape(ctx context.Context, j *job, e *entry, x *shape, size rootfs.Size) {
	s.mu.Lock()
	from := e.base
	s.mu.Unlock()
	b := s.builder(e, size)
	b.secondary = true
	b.log = func(int, string) {}
	b.now = func(line string) {
		slog.Info("making a template's snapshot of another shape", "template", e.Template, "shape", size, "doing", line)
	}
	var made *base
	err := context.Cause(ctx)
	if err == nil {
		from.use.RLock()
		made, err = b.again(ctx, from)
		from.use.RUnlock()
	}
	j.machineGone()
	if err != nil && ctx.Err() == nil {
		slog.Error("a template's snapshot of another shape could not be made", "template", e.Template, "shape", size, "err", err)
	}
	s.mu.Lock()
	x.job, x.base = nil, made
	if err != nil {
		x.failed = time.Now()
	}
	s.mu.Unlock()
	if err == nil {
		s.share(made) // until then each machine clones the memory
	}
}
