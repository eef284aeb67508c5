// Package sparse goes through files by their data and leaves out their holes: the memory of a guest is mostly nothing.
package sparse

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Data calls do for each part of a file's first size bytes that isn't a hole, in order, until do returns an error. It moves the file's offset.
func Data(f *os.File, size int64, do func(start, end int64) error) error {
	for at := int64(0); at < size; {
		start, err := f.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // a hole up to the end
		}
		if err != nil {
			return err
		}
		end, err := f.Seek(start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if err := do(start, end); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// Copy makes dst, an empty file, the same as src, with the same holes.
func Copy(dst, src *os.File) error {
	size, err := src.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if err := dst.Truncate(size); err != nil {
		return err
	}
	return Data(src, size, func(start, end int64) error {
		_, err := io.Copy(io.NewOffsetWriter(dst, start), io.NewSectionReader(src, start, end-start))
		return err
	})
}
