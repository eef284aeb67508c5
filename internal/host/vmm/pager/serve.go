package pager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm/pages"
)

const (
	// chunkBytes is how much comes with a page that is asked for: its surroundings, as the kernel reads them of a mapped file.
	chunkBytes = 64 << 10
	// maxFetches is how many chunks are read at once, each into a buffer.
	maxFetches = 8
	// maxFaults is how many chunks are asked for at once. A VMM's threads can't ask for as many, nor what KVM asks for on a guest's behalf.
	maxFaults = 4096
	// maxEvents is how many messages of the kernel are read at once.
	maxEvents = 64
	// busyLimit is how long a page may have to wait for a change of the memory's layout.
	busyLimit = 10 * time.Second
	// busyFirst and busySlowest are the pauses before it's tried again; doubled each time.
	busyFirst, busySlowest = 50 * time.Microsecond, 5 * time.Millisecond
)

// server serves the pages of one machine.
type server struct {
	uffd    uffd
	regions []pages.Region
	pages   int64 // of all regions
	source  Source
	record  *recorder   // nil for nobody
	buffers chan []byte // maxFetches of them
	work    *errgroup.Group

	// layout is held for reading while pages are put into the memory, and for writing while messages are read: a removal goes on when its message was
	// read, and what is put there afterwards must be zeros.
	layout  sync.RWMutex
	removed bitmap // pages; nil until there are any

	mu     sync.Mutex
	flight map[int64]bool // chunks that are on their way, by their offsets; true if they were asked for once more
	done   bitmap         // chunks that have been put there, by their first pages

	faults, prefetched atomic.Int64
}

func newServer(u uffd, regions []pages.Region, source Source, record *recorder) *server {
	last := regions[len(regions)-1]
	s := &server{
		uffd: u, regions: regions, source: source, record: record, buffers: make(chan []byte, maxFetches), flight: map[int64]bool{},
		pages: (last.Offset + last.Bytes) / pageBytes, done: newBitmap((last.Offset + last.Bytes) / pageBytes),
	}
	for range maxFetches {
		s.buffers <- make([]byte, chunkBytes)
	}
	return s
}

// serve answers page faults until the VMM closes its connection, and returns nil then. ctx ends it early. The working set's pages come unasked.
func (s *server) serve(ctx context.Context, c *net.UnixConn, set []uint32) error {
	s.work, ctx = errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() {
		s.uffd.file.SetReadDeadline(time.Unix(1, 0))
		c.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()
	s.work.Go(func() error { return watch(c) })
	s.work.Go(func() error { return s.answer(ctx) })
	s.work.Go(func() error { return s.prefetch(ctx, set) })
	if s.record != nil {
		s.work.Go(func() error { s.record.run(ctx); return nil })
	}
	if err := s.work.Wait(); !errors.Is(err, errEnded) {
		return err
	}
	return nil
}

// watch returns errEnded when the VMM ends, which has nothing more to say.
func watch(c *net.UnixConn) error {
	n, err := c.Read(make([]byte, 1))
	if n > 0 {
		return errors.New("the machine's monitor says something after the handshake")
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil // another one has failed
	}
	return errEnded // in whichever way
}

// answer reads the kernel's messages and has the pages brought that are asked for.
func (s *server) answer(ctx context.Context) error {
	buf := make([]byte, maxEvents*messageBytes)
	for {
		var events []event
		err := s.uffd.read(buf, &s.layout, func(messages []byte) {
			for ; len(messages) > 0; messages = messages[messageBytes:] {
				e := parseEvent(messages)
				if e.kind == eventRemove {
					s.remove(e.start, e.end)
				}
				events = append(events, e)
			}
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := s.take(ctx, e); err != nil {
				return err
			}
		}
	}
}

// take does what a message asks for.
func (s *server) take(ctx context.Context, e event) error {
	switch e.kind {
	case eventPageFault:
		return s.fault(ctx, e.address)
	case eventFork:
		return unix.Close(e.fd) // a child that nobody serves
	case eventRemove, eventUnmap:
		return nil
	default:
		return fmt.Errorf("a message of kind %#x from the kernel", e.kind)
	}
}

// fault has a page brought that is asked for.
func (s *server) fault(ctx context.Context, address uint64) error {
	r, ok := find(s.regions, address)
	if !ok {
		return fmt.Errorf("a page is asked for at %#x, where the memory isn't", address)
	}
	s.faults.Add(1)
	offset := r.Offset + int64(address-r.Address)
	if s.record != nil {
		s.record.note(uint32(offset / pageBytes))
	}
	chunk := chunkOf(r, offset)
	mine, err := s.claim(chunk)
	if mine {
		s.work.Go(func() error { return s.bring(ctx, r, chunk) })
	}
	return err
}

// chunkOf is the offset of the chunk that an offset of a region is in.
func chunkOf(r pages.Region, offset int64) int64 { return max(offset&^(chunkBytes-1), r.Offset) }

// chunkEnd is where a chunk of a region ends.
func chunkEnd(r pages.Region, chunk int64) int64 {
	return min((chunk+chunkBytes)&^(chunkBytes-1), r.Offset+r.Bytes)
}

// claim makes the caller the one who brings a chunk. If another one does already, he does it once more: the page may have been there and gone.
func (s *server) claim(chunk int64) (mine bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.flight[chunk]; taken {
		s.flight[chunk] = true
		return false, nil
	}
	if len(s.flight) >= maxFaults {
		return false, fmt.Errorf("more than %d pages are asked for at once", maxFaults)
	}
	s.flight[chunk] = false
	return true, nil
}

// release tells whether a chunk that was brought needn't be brought once more.
func (s *server) release(chunk int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight[chunk] {
		s.flight[chunk] = false
		return false
	}
	delete(s.flight, chunk)
	s.done.set(chunk / pageBytes)
	return true
}

// bring brings a chunk that was claimed.
func (s *server) bring(ctx context.Context, r pages.Region, chunk int64) error {
	for {
		if err := s.fetch(ctx, r, chunk, chunkEnd(r, chunk)); err != nil || ctx.Err() != nil {
			return err
		}
		if s.release(chunk) {
			return nil
		}
	}
}

// fetch reads what is between two offsets and puts it into the memory.
func (s *server) fetch(ctx context.Context, r pages.Region, offset, end int64) error {
	var buf []byte
	select {
	case buf = <-s.buffers:
		defer func() { s.buffers <- buf }()
	case <-ctx.Done():
		return nil
	}
	first := offset
	for offset < end {
		n, zeros, err := s.source.Fetch(ctx, buf[:end-offset], offset)
		if err == nil && (n <= 0 || n%pageBytes != 0 || int64(n) > end-offset) {
			err = fmt.Errorf("it gave %d bytes", n)
		}
		if err != nil {
			return fmt.Errorf("read the page at offset %d: %w", offset, err)
		}
		data := buf[:n]
		if err := s.put(ctx, r, offset, data, zeros); err != nil {
			return err
		}
		offset += int64(n)
	}
	// What is there already wakes nobody who came too late to see it.
	return s.uffd.wake(r.Address+uint64(first-r.Offset), uint64(end-first))
}

// put puts pages into the memory, again and again while its layout is being changed.
func (s *server) put(ctx context.Context, r pages.Region, offset int64, data []byte, zeros bool) error {
	deadline := time.Now().Add(busyLimit)
	for wait := busyFirst; ; wait = min(2*wait, busySlowest) {
		err := s.place(r, offset, data, zeros)
		if !errors.Is(err, errBusy) || ctx.Err() != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("put the page at offset %d there within %s: %w", offset, busyLimit, err)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// place tries once. A page that was removed is zeros from then on.
func (s *server) place(r pages.Region, offset int64, data []byte, zeros bool) error {
	s.layout.RLock()
	defer s.layout.RUnlock()
	for at := 0; at < len(data); {
		gone, n := s.removed.has((offset+int64(at))/pageBytes), pageBytes
		for at+n < len(data) && s.removed.has((offset+int64(at+n))/pageBytes) == gone {
			n += pageBytes
		}
		address := r.Address + uint64(offset-r.Offset) + uint64(at)
		var err error
		if zeros || gone {
			err = s.uffd.zero(address, uint64(n))
		} else {
			err = s.uffd.copy(address, data[at:at+n])
		}
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// remove notes that pages were removed. layout is held.
func (s *server) remove(start, end uint64) {
	for _, r := range s.regions {
		from, to := max(start, r.Address), min(end, r.Address+uint64(r.Bytes))
		if from >= to {
			continue
		}
		if s.removed == nil {
			s.removed = newBitmap(s.pages)
		}
		first := r.Offset/pageBytes + int64(from-r.Address)/pageBytes
		for page := range int64(to-from) / pageBytes {
			s.removed.set(first + page)
		}
	}
}

// prefetch brings the working set's pages, with their surroundings, in its order.
func (s *server) prefetch(ctx context.Context, set []uint32) error {
	for _, page := range set {
		offset := int64(page) * pageBytes
		r, ok := at(s.regions, offset)
		if !ok || ctx.Err() != nil {
			continue
		}
		chunk := chunkOf(r, offset)
		if !s.claimFresh(chunk) {
			continue
		}
		if err := s.bring(ctx, r, chunk); err != nil {
			return err
		}
		s.prefetched.Add(1)
	}
	return nil
}

// claimFresh claims a chunk that was never brought.
func (s *server) claimFresh(chunk int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.flight[chunk]; taken || s.done.has(chunk/pageBytes) || len(s.flight) >= maxFaults {
		return false
	}
	s.flight[chunk] = false
	return true
}

// bitmap is a set of small numbers. None is in the nil one.
type bitmap []uint64

func newBitmap(n int64) bitmap { return make(bitmap, (n+63)/64) }

func (b bitmap) has(i int64) bool { return i/64 < int64(len(b)) && b[i/64]&(1<<(i%64)) != 0 }

func (b bitmap) set(i int64) { b[i/64] |= 1 << (i % 64) }
