package seal

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
)

// Same reports whether two files hold the same in some parts; beyond its end a file holds zeroes.
func Same(ctx context.Context, path, other string, parts []Part) (bool, error) {
	if len(parts) == 0 {
		return true, nil
	}
	a, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, err := os.Open(other)
	if err != nil {
		return false, err
	}
	defer b.Close()
	x, y := make([]byte, readBytes), make([]byte, readBytes)
	for _, p := range parts {
		for at, end := p.Offset, p.Offset+p.Bytes; at < end; at += readBytes {
			n := min(readBytes, end-at)
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			if err := readPadded(a, x[:n], at); err != nil {
				return false, fmt.Errorf("read %s: %w", path, err)
			}
			if err := readPadded(b, y[:n], at); err != nil {
				return false, fmt.Errorf("read %s: %w", other, err)
			}
			if !bytes.Equal(x[:n], y[:n]) {
				return false, nil
			}
		}
	}
	return true, nil
}

// readPadded fills b with what a file holds from an offset on.
func readPadded(f *os.File, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if err == io.EOF {
		err = nil
	}
	clear(b[n:])
	return err
}
