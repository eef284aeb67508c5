package seal

import (
	"context"
	"fmt"
	"os"
)

// Part is a part of a file, from an offset on.
type Part struct {
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
}

// Content is what a file holds in some of its parts.
type Content struct {
	Parts []Part // in order; nil if nobody knows
	Info  Info   // as the function Parts returns it of them; zero if nobody has looked
}

// Parts returns what the manifest says of a file of which only parts are its own: the digest is of their blocks, with their numbers, zeroes left
// out. It takes as long as they are large. The parts are whole blocks, but for the file's end.
func Parts(ctx context.Context, path string, parts []Part) (Info, error) {
	f, err := os.Open(path)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	size, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	s := newSealer(ctx, f, true)
	for _, p := range parts {
		if p.Offset < 0 || p.Bytes < 0 || p.Offset%blockBytes != 0 || p.Bytes > size.Size()-p.Offset {
			return Info{}, fmt.Errorf("read %s: no part of it lies at %d with %d bytes", path, p.Offset, p.Bytes)
		}
		if err := s.extent(p.Offset, p.Offset+p.Bytes); err != nil {
			return Info{}, fmt.Errorf("read %s: %w", path, err)
		}
	}
	return s.sum.Info(size.Size()), nil
}
