// Package pages reads from outside which pages of a guest's memory its VMM has changed since it mapped them from a file, and copies them.
//
// It knows no VMM: what counts is a private mapping of the file. Reading it takes the rights of root.
package pages

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	pageBytes  = 4096
	chunkPages = 256       // pages that are read from a process at once: a megabyte
	maxMaps    = 8 << 20   // bytes of /proc/PID/maps that are looked at: the process is a stranger's to shape
	entryBytes = 8         // of a page in /proc/PID/pagemap
	entryBatch = 32 * 1024 // pages of the pagemap that are read at once
)

// The bits of a pagemap entry (Documentation/admin-guide/mm/pagemap.rst).
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
	pageOfFile  = 1 << 61
)

// Memory is the file behind a guest's memory. The inode finds its mapping even when the file was renamed or removed since.
type Memory struct {
	Inode uint64
	Bytes int64
}

// copyRun copies some pages from an address of a process to an offset of a file.
func copyRun(pid int, from uint64, buf []byte, to File, offset int64) error {
	if err := readRun(pid, from, buf); err != nil {
		return err
	}
	_, err := to.WriteAt(buf, offset)
	return err
}

// readRun reads pages of a process.
func readRun(pid int, from uint64, buf []byte) error {
	local := []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}}
	remote := []unix.RemoteIovec{{Base: uintptr(from), Len: len(buf)}}
	n, err := unix.ProcessVMReadv(pid, local, remote, 0)
	if err == nil && n != len(buf) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("read %d bytes at %#x of process %d: %w", len(buf), remote[0].Base, pid, err)
	}
	return nil
}

// changedRuns calls f for each run of changed pages, of at most chunkPages, with its offset in the memory and its length.
func changedRuns(pid int, start uint64, bytes int64, f func(offset, length int64) error) error {
	pagemap, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return err
	}
	defer pagemap.Close()
	pages := bytes / pageBytes
	entries := make([]byte, min(entryBatch, pages)*entryBytes)
	for first := int64(0); first < pages; first += entryBatch {
		n := min(entryBatch, pages-first)
		at := (int64(start)/pageBytes + first) * entryBytes
		if _, err := pagemap.ReadAt(entries[:n*entryBytes], at); err != nil {
			return fmt.Errorf("read which pages of process %d have changed: %w", pid, err)
		}
		err := runs(entries[:n*entryBytes], func(page, count int64) error {
			return f((first+page)*pageBytes, count*pageBytes)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// runs calls f for each run of changed pages in a part of a pagemap, with the number of the first and how many there are, at most chunkPages.
func runs(entries []byte, f func(page, count int64) error) error {
	n := int64(len(entries) / entryBytes)
	for i := int64(0); i < n; {
		count := int64(0)
		for i+count < n && count < chunkPages && changed(binary.NativeEndian.Uint64(entries[(i+count)*entryBytes:])) {
			count++
		}
		if count > 0 {
			if err := f(i, count); err != nil {
				return err
			}
		}
		i += max(count, 1)
	}
	return nil
}

// changed tells whether a page of a private mapping is no longer the file's: it was copied when it was written to, and may be in swap now.
func changed(entry uint64) bool {
	return entry&pageSwapped != 0 || entry&pagePresent != 0 && entry&pageOfFile == 0
}

// findMappings returns where a process has a memory file mapped.
func findMappings(pid int, memory Memory) ([]mapping, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	parts, err := search(io.LimitReader(f, maxMaps), memory)
	if err != nil {
		return nil, fmt.Errorf("find the memory of process %d: %w", pid, err)
	}
	return parts, nil
}

// search finds the mappings in the lines of /proc/PID/maps: private, of the file's inode, and all of it together; a VMM leaves a hole in the address
// space for devices, so a large memory comes in parts. The device's number isn't compared, since that of a btrfs subvolume reads differently here
// and in stat; the sizes tell the guest's memory from another file with the same inode.
func search(maps io.Reader, memory Memory) ([]mapping, error) {
	var parts []mapping
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		if v, ok := parseMapping(lines.Text()); ok && v.private && v.inode == memory.Inode && v.offset+v.end-v.start <= uint64(memory.Bytes) {
			parts = append(parts, v)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(parts, func(a, b mapping) int { return cmp.Compare(a.offset, b.offset) })
	if whole := cover(parts, uint64(memory.Bytes)); whole != nil {
		return whole, nil
	}
	return nil, errors.New("no private mapping of all of it")
}

// cover picks, of mappings sorted by their offsets, those that follow each other from the beginning to the end, exactly; of two at one offset the
// longer one. nil if there are none. It looks at each once: the process is a stranger's to shape.
func cover(parts []mapping, end uint64) []mapping {
	var chain []mapping
	at := uint64(0)
	for i := 0; i < len(parts) && at < end; {
		longest := parts[i]
		for ; i < len(parts) && parts[i].offset == longest.offset; i++ {
			if size := parts[i].end - parts[i].start; size > longest.end-longest.start {
				longest = parts[i]
			}
		}
		if longest.offset != at {
			return nil
		}
		chain = append(chain, longest)
		at += longest.end - longest.start
	}
	if at != end {
		return nil
	}
	return chain
}

// mapping is a line of /proc/PID/maps.
type mapping struct {
	start, end, offset, inode uint64
	private                   bool
}

// parseMapping reads "START-END PERMS OFFSET DEVICE INODE PATH".
func parseMapping(line string) (mapping, bool) {
	f := strings.Fields(line)
	if len(f) < 5 {
		return mapping{}, false
	}
	from, to, ok := strings.Cut(f[0], "-")
	if !ok || len(f[1]) != 4 {
		return mapping{}, false
	}
	var v mapping
	for _, n := range []struct {
		to   *uint64
		text string
		base int
	}{{&v.start, from, 16}, {&v.end, to, 16}, {&v.offset, f[2], 16}, {&v.inode, f[4], 10}} {
		x, err := strconv.ParseUint(n.text, n.base, 64)
		if err != nil {
			return mapping{}, false
		}
		*n.to = x
	}
	v.private = f[1][3] == 'p'
	return v, v.end > v.start
}
