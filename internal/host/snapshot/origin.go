package snapshot

import (
	"context"
	"slices"

	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/seal"
)

const (
	partGap  = 64 << 10 // bytes: parts that are as close are one, for a manifest that stays small; what is between them is the origin's and stays so, too
	maxParts = 1 << 16  // of one file that a manifest names; some 40 bytes each, and 80 more with a digest
)

// Origin is where the files of a machine were copied from.
type Origin struct{ Disk, Memory string }

// origin returns what a machine's files are copies of, as long as that's there and is what it was: the snapshot that it was loaded from, or its template's. It stays
// until give is called; nil: there's none.
func (s *Store) origin(template string, m Machine) (o Origin, give func()) {
	if m.Parent == "" {
		if s.cfg.Template == nil || m.TemplateDigest == "" {
			return Origin{}, nil
		}
		return s.cfg.Template(template, m.TemplateDigest)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.loadable(m.Parent)
	if err != nil || e.digest != m.ParentDigest {
		return Origin{}, nil
	}
	e.loads++
	return Origin{Disk: e.file(DiskName), Memory: e.file(MemoryName)}, func() {
		s.mu.Lock()
		e.loads--
		s.mu.Unlock()
	}
}

// run is a part of a file with its place on the volume.
type run struct {
	offset, place, bytes int64
	packed               bool // see disk.Extent
}

// shares reports whether two runs are the same blocks where they overlap. A part of what is compressed has the place of the whole: where two files have one, they have it at the
// same offset, since a file is only copied as a whole here.
func (r run) shares(t run) bool {
	switch {
	case r.place < 0 || t.place < 0 || r.packed != t.packed:
		return false
	case r.packed:
		return r.place == t.place
	default:
		return r.place-r.offset == t.place-t.offset
	}
}

// meets says of two runs that each has blocks where they overlap, whichever.
func (r run) meets(run) bool { return true }

// runs are a file's, in the order of their offsets.
func (s *Store) runs(ctx context.Context, path string) ([]run, error) {
	var out []run
	err := s.cfg.Extents(ctx, path, func(e disk.Extent) { out = append(out, run{e.Offset, e.Place, e.Bytes, e.Packed}) })
	return out, err
}

// difference is how a file differs from its origin by the blocks that they have, in order.
type difference struct {
	written []seal.Part // where the file has blocks, and others than its origin
	gone    []seal.Part // where the origin has blocks that the file hasn't: they were written over or discarded
	holes   []seal.Part // those of gone where the file has none
}

// differing compares a file with its origin. Both have been synced. While btrfs moves blocks (a balance) files that share them may seem not to: there is more of
// written and gone, then, and not of holes.
func (s *Store) differing(ctx context.Context, path, origin string) (d difference, err error) {
	own, err := s.runs(ctx, path)
	if err != nil {
		return d, err
	}
	theirs, err := s.runs(ctx, origin)
	if err != nil {
		return d, err
	}
	return difference{written: without(own, theirs, run.shares), gone: without(theirs, own, run.shares), holes: without(theirs, own, run.meets)}, nil
}

// named returns parts as a manifest names them: those that are close are one. disk.ErrFragmented if they're too many.
func named(parts []seal.Part) ([]seal.Part, error) {
	var out []seal.Part
	for _, p := range parts {
		if last := len(out) - 1; last >= 0 && p.Offset-(out[last].Offset+out[last].Bytes) <= partGap {
			out[last].Bytes = p.Offset + p.Bytes - out[last].Offset
			continue
		}
		out = append(out, p)
	}
	if len(out) > maxParts {
		return nil, disk.ErrFragmented
	}
	return out, nil
}

// without returns the parts of some runs that others, with which they have something in common, don't have.
func without(own, theirs []run, common func(r, t run) bool) []seal.Part {
	var parts []seal.Part
	for _, r := range own {
		for len(theirs) > 0 && theirs[0].offset+theirs[0].bytes <= r.offset {
			theirs = theirs[1:]
		}
		at, end := r.offset, r.offset+r.bytes
		for _, t := range theirs {
			if t.offset >= end {
				break
			}
			if !common(r, t) {
				continue
			}
			parts = appendPart(parts, at, max(at, t.offset))
			at = max(at, min(end, t.offset+t.bytes))
		}
		parts = appendPart(parts, at, end)
	}
	return parts
}

// appendPart adds what lies from one offset to another, to the last part if that ends there.
func appendPart(parts []seal.Part, from, to int64) []seal.Part {
	if from == to {
		return parts
	}
	if last := len(parts) - 1; last >= 0 && from == parts[last].Offset+parts[last].Bytes {
		parts[last].Bytes = to - parts[last].Offset
		return parts
	}
	return append(parts, seal.Part{Offset: from, Bytes: to - from})
}

// union returns what lies in some parts or in others, in order. Both are.
func union(a, b []seal.Part) (out []seal.Part) {
	for len(a)+len(b) > 0 {
		if len(a) == 0 || len(b) > 0 && b[0].Offset < a[0].Offset {
			a, b = b, a
		}
		p := a[0]
		a = a[1:]
		if last := len(out) - 1; last >= 0 && p.Offset <= out[last].Offset+out[last].Bytes {
			out[last].Bytes = max(out[last].Bytes, p.Offset+p.Bytes-out[last].Offset)
			continue
		}
		out = append(out, p)
	}
	return out
}

// clip leaves out what lies beyond a file's end: its last block has more than it.
func clip(parts []seal.Part, size int64) []seal.Part {
	for i := range parts {
		parts[i].Bytes = min(parts[i].Bytes, size-parts[i].Offset)
	}
	return slices.DeleteFunc(parts, func(p seal.Part) bool { return p.Bytes <= 0 })
}

// outside returns what of some parts doesn't lie in others. Both are in order.
func outside(parts, by []seal.Part) (out []seal.Part) {
	for _, p := range parts {
		for len(by) > 0 && by[0].Offset+by[0].Bytes <= p.Offset {
			by = by[1:]
		}
		at, end := p.Offset, p.Offset+p.Bytes
		for _, b := range by {
			if b.Offset >= end {
				break
			}
			out = appendPart(out, at, max(at, b.Offset))
			at = max(at, min(end, b.Offset+b.Bytes))
		}
		out = appendPart(out, at, end)
	}
	return out
}

// covered reports whether all of some parts lies in others. Both are in order.
func covered(parts, by []seal.Part) bool { return len(outside(parts, by)) == 0 }
