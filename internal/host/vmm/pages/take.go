package pages

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/seal"
)

// How pages are taken while a machine stands still.
const (
	blockBytes = 2 << 20  // memory that is had from the kernel at once
	pieceBytes = 16 << 20 // of a guest's memory that one reader looks at before it takes the next piece
	maxReaders = 4
	maxReady   = 48 << 20 // bytes that stay with a buffer: to have a page from the kernel takes as long as to read one
)

// Buffer bounds the memory that all saves of a process hold together, in bytes.
type Buffer struct {
	limit int64

	mu    sync.Mutex
	held  int64
	ready [][]byte // blocks that nobody holds
}

// NewBuffer returns one of a size in bytes, of which whole blocks of 2 MiB are used.
func NewBuffer(limit int64) *Buffer { return &Buffer{limit: limit} }

// block has some memory; nil if there is no more to be had.
func (b *Buffer) block() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+blockBytes > b.limit {
		return nil
	}
	var m []byte
	if n := len(b.ready); n > 0 {
		m, b.ready = b.ready[n-1], b.ready[:n-1]
	} else {
		var err error
		if m, err = unix.Mmap(-1, 0, blockBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
			return nil
		}
	}
	b.held += blockBytes
	return m
}

func (b *Buffer) free(m []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= blockBytes
	if (len(b.ready)+1)*blockBytes <= maxReady {
		clear(m) // it was a guest's
		b.ready = append(b.ready, m)
		return
	}
	unix.Munmap(m)
}

// Taken is what was read of a process and waits to be written.
type Taken struct {
	to     File
	buffer *Buffer
	spill  *os.File // nil unless to is Sparing

	mu      sync.Mutex
	runs    []takenRun
	mem     [][]byte    // the blocks that the runs are in
	written []seal.Part // at once, for want of room: into the file, or into spill
}

// takenRun is some pages and their offset in the file.
type takenRun struct {
	offset int64
	pages  []byte
}

// File is where pages are written: an *os.File, or a Sparing one.
type File interface {
	io.WriterAt
	Stat() (os.FileInfo, error)
}

// TakeChanged reads the pages that a process has changed in its private mapping of a memory file. They are held in a buffer, and what it has no
// room for is written at once, to another file that must be a copy of the memory file, or of what was written here of this process before; if that's Sparing, into one
// beside it. The process must not run guest code meanwhile; it may afterwards, or end. The file is whole when Write has returned.
func TakeChanged(ctx context.Context, pid int, memory Memory, to File, b *Buffer) (*Taken, error) {
	info, err := to.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != memory.Bytes {
		return nil, fmt.Errorf("the file for it has %d bytes, want a copy of what was loaded: %d", info.Size(), memory.Bytes)
	}
	parts, err := findMappings(pid, memory)
	if err != nil {
		return nil, err
	}
	t := &Taken{to: to, buffer: b}
	if s, ok := to.(Sparing); ok {
		if t.spill, err = Spill(s.File); err != nil {
			return nil, err
		}
	}
	pieces := make(chan mapping)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var readers sync.WaitGroup
	for range min(maxReaders, runtime.NumCPU()) {
		readers.Go(func() {
			if err := t.read(ctx, pid, pieces); err != nil {
				cancel(err)
			}
		})
	}
	hand(ctx, parts, pieces)
	readers.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Free()
		return nil, err
	}
	return t, nil
}

// hand gives out mappings in pieces.
func hand(ctx context.Context, parts []mapping, pieces chan<- mapping) {
	defer close(pieces)
	for _, p := range parts {
		for p.start < p.end {
			piece := mapping{start: p.start, end: min(p.end, p.start+pieceBytes), offset: p.offset}
			select {
			case pieces <- piece:
			case <-ctx.Done():
				return
			}
			p.offset += piece.end - piece.start
			p.start = piece.end
		}
	}
}

// read takes pieces until there are no more.
func (t *Taken) read(ctx context.Context, pid int, pieces <-chan mapping) error {
	var block []byte // what is free of the newest one
	for p := range pieces {
		err := changedRuns(pid, p.start, int64(p.end-p.start), func(offset, length int64) error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if int64(len(block)) < length {
				block = t.block()
			}
			if block == nil {
				t.note(int64(p.offset)+offset, length)
				return copyRun(pid, p.start+uint64(offset), make([]byte, length), t.atOnce(), int64(p.offset)+offset)
			}
			pages := block[:length]
			block = block[length:]
			if err := readRun(pid, p.start+uint64(offset), pages); err != nil {
				return err
			}
			t.add(takenRun{int64(p.offset) + offset, pages})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// atOnce is where pages are written that can't be held.
func (t *Taken) atOnce() File {
	if t.spill != nil {
		return t.spill
	}
	return t.to
}

func (t *Taken) block() []byte {
	m := t.buffer.block()
	if m == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mem = append(t.mem, m)
	return m
}

func (t *Taken) add(r takenRun) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs = append(t.runs, r)
}

// note says that a part of the file is being written at once.
func (t *Taken) note(offset, length int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written = append(t.written, seal.Part{Offset: offset, Bytes: length})
}

// Write writes what is held into the file, unless ctx ends, and frees it. It returns all parts of the memory that the process
// had changed: nothing else of the file was written over; and their digest, if all of them were held. It's called once.
func (t *Taken) Write(ctx context.Context) (seal.Content, error) {
	defer t.Free()
	if err := t.writeSpilled(ctx); err != nil {
		return seal.Content{}, err
	}
	slices.SortFunc(t.runs, func(a, b takenRun) int { return cmp.Compare(a.offset, b.offset) })
	var out seal.Content
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return t.writeHeld(ctx) })
	if len(t.written) == 0 {
		g.Go(func() (err error) {
			out.Info, err = t.digest(ctx)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return seal.Content{}, err
	}
	out.Parts = t.written
	for _, r := range t.runs {
		out.Parts = append(out.Parts, seal.Part{Offset: r.offset, Bytes: int64(len(r.pages))})
	}
	out.Parts = join(out.Parts)
	return out, nil
}

// writeHeld writes what is held.
func (t *Taken) writeHeld(ctx context.Context) error {
	for _, r := range t.runs {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if _, err := t.to.WriteAt(r.pages, r.offset); err != nil {
			return err
		}
	}
	return nil
}

// digest is what the file's manifest says of what is held, which is in order.
func (t *Taken) digest(ctx context.Context) (seal.Info, error) {
	sum := seal.NewSum()
	for _, r := range t.runs {
		if err := context.Cause(ctx); err != nil {
			return seal.Info{}, err
		}
		sum.Add(r.offset, r.pages)
	}
	info, err := t.to.Stat()
	if err != nil {
		return seal.Info{}, err
	}
	return sum.Info(info.Size()), nil
}

// writeSpilled writes what was spilled.
func (t *Taken) writeSpilled(ctx context.Context) error {
	if t.spill == nil {
		return nil
	}
	buf := make([]byte, chunkPages*pageBytes)
	for _, p := range t.written {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if _, err := t.spill.ReadAt(buf[:p.Bytes], p.Offset); err != nil {
			return err
		}
		if _, err := t.to.WriteAt(buf[:p.Bytes], p.Offset); err != nil {
			return err
		}
	}
	return nil
}

// join sorts parts by their offsets and makes one of those that touch.
func join(parts []seal.Part) []seal.Part {
	slices.SortFunc(parts, func(a, b seal.Part) int { return cmp.Compare(a.Offset, b.Offset) })
	out := parts[:0]
	for _, p := range parts {
		if n := len(out); n > 0 && out[n-1].Offset+out[n-1].Bytes == p.Offset {
			out[n-1].Bytes += p.Bytes
			continue
		}
		out = append(out, p)
	}
	return out
}

// Free lets go of what is held. It may be repeated.
func (t *Taken) Free() {
	for _, m := range t.mem {
		t.buffer.free(m)
	}
	t.mem, t.runs = nil, nil
	if t.spill != nil {
		t.spill.Close()
		t.spill = nil
	}
}
