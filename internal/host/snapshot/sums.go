package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"slices"
	"sort"

	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/seal"
)

// sumBytes is how much of a disk has a digest of its own, at the most: what is written anywhere in it has that read again.
const sumBytes = 1 << 20

// sum is a part of a disk with its digest.
type sum struct {
	seal.Part
	SHA256 string `json:"sha256"` // as seal.Parts has it, of this part alone
}

// split cuts parts so that each lies in one piece of sumBytes.
func split(parts []seal.Part) (out []seal.Part) {
	for _, p := range parts {
		for at, end := p.Offset, p.Offset+p.Bytes; at < end; {
			n := min(end, (at/sumBytes+1)*sumBytes) - at
			out = append(out, seal.Part{Offset: at, Bytes: n})
			at += n
		}
	}
	return out
}

// namedOfDisk returns what a disk of a size differs in as its manifest names it: what was written in pieces, and what is gone. disk.ErrFragmented if they're too many.
func namedOfDisk(written, gone []seal.Part, size int64) (pieces, holes []seal.Part, err error) {
	if written, err = named(written); err != nil {
		return nil, nil, err
	}
	if holes, err = named(gone); err != nil {
		return nil, nil, err
	}
	if pieces = split(clip(written, size)); len(pieces)+len(holes) > maxParts {
		return nil, nil, disk.ErrFragmented
	}
	return pieces, holes, nil
}

// sums returns the digests of the parts of a disk. Those that an earlier snapshot of the execution has aren't made anew where nothing was written since.
func (b *Building) sums(ctx context.Context, path string, parts []seal.Part) ([]sum, error) {
	known, err := b.store.earlier(ctx, b.entry, path)
	if err != nil {
		slog.Warn("all that differs on a disk is read again", "snapshot", b.entry.Snapshot, "err", err)
	}
	out := make([]sum, len(parts))
	for i, p := range parts {
		if out[i] = (sum{p, known[p]}); out[i].SHA256 != "" {
			continue
		}
		info, err := seal.Parts(ctx, path, []seal.Part{p})
		if err != nil {
			return nil, err
		}
		out[i].SHA256 = info.SHA256
	}
	return out, nil
}

// earlier returns the digests that the newest snapshot of the same execution has of its disk, of those parts whose blocks are still the same.
func (s *Store) earlier(ctx context.Context, of *entry, path string) (map[seal.Part]string, error) {
	last, give := s.newestOf(of, func(e *entry) bool { return len(e.manifest.DiskChanged) > 0 })
	if last == nil {
		return nil, nil
	}
	defer give()
	now, err := s.runs(ctx, path)
	if err != nil {
		return nil, err
	}
	then, err := s.runs(ctx, last.file(DiskName))
	if err != nil {
		return nil, err
	}
	written, gone := without(now, then, run.shares), without(then, now, run.shares)
	known := map[seal.Part]string{}
	for _, p := range last.manifest.DiskChanged {
		if !touches(p.Part, written) && !touches(p.Part, gone) {
			known[p.Part] = p.SHA256
		}
	}
	return known, nil
}

// touches reports whether a part has something in common with others, which are in order.
func touches(p seal.Part, others []seal.Part) bool {
	i := sort.Search(len(others), func(i int) bool { return others[i].Offset+others[i].Bytes > p.Offset })
	return i < len(others) && others[i].Offset < p.Offset+p.Bytes
}

// total is what a manifest says of a disk with such parts.
func total(size int64, sums []sum) seal.Info {
	out := seal.Info{Bytes: size}
	h := sha256.New()
	for _, s := range sums {
		out.Data += s.Bytes
		h.Write([]byte(s.SHA256))
	}
	out.SHA256 = hex.EncodeToString(h.Sum(nil))
	return out
}

// parts are those of the sums.
func parts(sums []sum) []seal.Part {
	out := make([]seal.Part, 0, len(sums))
	for _, s := range sums {
		out = append(out, s.Part)
	}
	return slices.Clip(out)
}
