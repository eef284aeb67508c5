package image

import (
	"context"
	"fmt"
	"io"
	"os"
)

// copyBytes is how much of a file is read at once.
const copyBytes = 256 << 10

// counter counts what is read through it.
type counter struct {
	from io.Reader
	n    int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += int64(n)
	return n, err
}

// stream reads a decompressed layer and counts it against the tree's limit.
type stream struct {
	from io.Reader
	tree *Tree
}

func (s stream) Read(b []byte) (int, error) {
	n, err := s.from.Read(b)
	s.tree.used.stream += int64(n)
	if limit := streamFactor*s.tree.limits.Bytes + streamAllowance; s.tree.used.stream > limit {
		return n, fmt.Errorf("%w: its layers have more than %d bytes", ErrTooLarge, limit)
	}
	return n, err
}

// copy writes a file's content. A large one that was compressed better than anything useful is refused before it's whole.
func (e entry) copy(ctx context.Context, f *os.File, body io.Reader) error {
	l := e.layer
	before, written := l.input.n, int64(0)
	buf := make([]byte, min(copyBytes, max(1, e.header.Size)))
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, err := f.Write(buf[:n]); err != nil {
				return err
			}
		}
		written += int64(n)
		l.tree.used.bytes += int64(n)
		if err == io.EOF {
			return nil
		}
		switch packed := max(1, l.input.n-before); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return malformed(err)
		case written > l.tree.limits.Packed && written/packed > maxRatio:
			return fmt.Errorf("%w: %d bytes of it were %d when compressed, the limit is %d to 1", ErrTooLarge, written, packed, maxRatio)
		}
	}
}
