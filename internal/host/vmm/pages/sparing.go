package pages

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// compareBytes is how much of a file is read at once to be compared.
const compareBytes = 64 << 10

// Sparing is a file that is only written to where it has something else, page by page: it goes on sharing the other blocks with the file that it's a copy of.
type Sparing struct{ *os.File }

// WriteAt writes whole pages that the file has already, at the beginning of one.
func (s Sparing) WriteAt(pages []byte, offset int64) (int, error) {
	var old [compareBytes]byte
	for at := 0; at < len(pages); at += compareBytes {
		part := pages[at:min(len(pages), at+compareBytes)]
		if _, err := s.ReadAt(old[:len(part)], offset+int64(at)); err != nil {
			return at, err
		}
		if err := s.writeOther(part, old[:len(part)], offset+int64(at)); err != nil {
			return at, err
		}
	}
	return len(pages), nil
}

// writeOther writes the pages that differ from what the file has.
func (s Sparing) writeOther(have, old []byte, offset int64) error {
	for at := 0; at < len(have); {
		n := 0
		for at+n < len(have) && !bytes.Equal(have[at+n:at+n+pageBytes], old[at+n:at+n+pageBytes]) {
			n += pageBytes
		}
		if n > 0 {
			if _, err := s.File.WriteAt(have[at:at+n], offset+int64(at)); err != nil {
				return err
			}
		}
		at += max(n, pageBytes)
	}
	return nil
}

// To is a file for pages that is written sparingly if it's a copy of an earlier save: one of anything else has few that stay, and would be read for nothing.
func To(f *os.File, earlier bool) File {
	if earlier {
		return Sparing{f}
	}
	return f
}

// Spill makes a file without a name beside another one, for pages that have no room elsewhere until they're compared: that would take too long while a machine stands still.
func Spill(beside *os.File) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(beside.Name()), filepath.Base(beside.Name())+".spill-")
	if err != nil {
		return nil, fmt.Errorf("make a file for pages: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, fmt.Errorf("make a file for pages: %w", errors.Join(err, f.Close()))
	}
	return f, nil
}
