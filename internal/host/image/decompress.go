package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdMemory bounds what decompressing takes, in bytes; it's the window that zstd's own program allows by default.
const zstdMemory = 128 << 20

// The first bytes of what can be decompressed.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// Decompress returns what a gzip or zstd stream holds; anything else is returned as it is.
func Decompress(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReader(r)
	magic, err := in.Peek(len(zstdMagic))
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		return z, nil
	case bytes.Equal(magic, zstdMagic):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdMemory))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(in), nil
}
