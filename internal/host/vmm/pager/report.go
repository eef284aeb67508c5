package pager

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/space-platform/space/internal/host/vmm/pages"
)

// maxReport bounds a report's file, in bytes, and maxWhy the reason in it.
const (
	maxReport = 16 << 10
	maxWhy    = 1 << 10
)

// report is what a pager tells whoever started it, or his next life: JSON lines in a file of theirs, of which a later one adds to those before.
type report struct {
	Regions    []pages.Region `json:"regions,omitempty"` // once it serves
	Ended      bool           `json:"ended,omitempty"`   // it's over: the machine has ended, or it has failed
	Failed     string         `json:"failed,omitempty"`  // why
	Faults     int64          `json:"faults,omitempty"`  // pages that were asked for
	Prefetched int64          `json:"prefetched,omitempty"`
}

// write adds a line.
func (r report) write(f *os.File) error {
	r.Failed = r.Failed[:min(len(r.Failed), maxWhy)]
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return err
}

// readReport reads what a pager has written so far. A line that isn't whole isn't there yet.
func readReport(path string) (r report, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	defer f.Close()
	return r, r.parse(f)
}

func (r *report) parse(from io.Reader) error {
	lines := bufio.NewReader(io.LimitReader(from, maxReport))
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := json.Unmarshal(bytes.TrimSpace(line), r); err != nil {
			return err
		}
	}
}
