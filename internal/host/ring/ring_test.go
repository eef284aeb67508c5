package ring

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// smallLimit makes segments of a hundred bytes.
const smallLimit = 1600

func open(t testing.TB, dir string) *Ring {
	t.Helper()
	r, err := Open(dir, smallLimit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func appendAll(t testing.TB, r *Ring, s Stream, data []byte) {
	t.Helper()
	if err := r.Append(context.Background(), s, data); err != nil {
		t.Fatal(err)
	}
}

// drain reads until the end of a finished ring.
func drain(t testing.TB, r *Ring, from uint64) []Piece {
	t.Helper()
	rd, err := r.Reader(from)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	var out []Piece
	for {
		p, err := rd.Next(context.Background())
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
}

func TestReadsBackWhatWasAppendedFromAnyOffset(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "ring")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		var log []byte
		var streams []Stream
		r := open(t, dir)
		for range rapid.IntRange(0, 30).Draw(rt, "records") {
			s := rapid.SampledFrom([]Stream{Stdout, Stderr}).Draw(rt, "stream")
			data := rapid.SliceOfN(rapid.Byte(), 1, 250).Draw(rt, "data")
			appendAll(t, r, s, data)
			log = append(log, data...)
			for range data {
				streams = append(streams, s)
			}
			if rapid.IntRange(0, 9).Draw(rt, "restart") == 0 {
				r.Close()
				r = open(t, dir)
			}
		}
		r.Finish()
		if r.End() != uint64(len(log)) {
			rt.Fatalf("the log ends at %d, want %d", r.End(), len(log))
		}
		from := uint64(rapid.IntRange(0, len(log)).Draw(rt, "from"))
		at := from
		for _, p := range drain(t, r, from) {
			if p.Offset != at {
				rt.Fatalf("piece at %d, want %d", p.Offset, at)
			}
			if p.Gap > 0 {
				if len(log) <= smallLimit {
					rt.Fatalf("a gap of %d in a log of %d", p.Gap, len(log))
				}
			} else if !bytes.Equal(p.Data, log[at:p.End()]) || p.Stream != streams[at] || p.Stream != streams[p.End()-1] {
				rt.Fatalf("piece at %d differs", at)
			}
			at = p.End()
		}
		if at != uint64(len(log)) {
			rt.Fatalf("read up to %d, want %d", at, len(log))
		}
		if kept := r.End() - r.Start(); kept > smallLimit {
			rt.Fatalf("kept %d bytes, limit %d", kept, smallLimit)
		}
	})
}

func TestLogWithinTheLimitHasNoGap(t *testing.T) {
	r := open(t, t.TempDir())
	appendAll(t, r, Stdout, bytes.Repeat([]byte("x"), smallLimit))
	if r.Start() != 0 {
		t.Fatalf("the oldest kept byte is %d, want 0", r.Start())
	}
	appendAll(t, r, Stdout, []byte("y"))
	if r.Start() == 0 {
		t.Fatal("one byte more dropped nothing")
	}
}

func TestTinyRecordsDontBlowUpTheFiles(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	for range 2 * smallLimit {
		appendAll(t, r, Stdout, []byte("x"))
	}
	var total int64
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		total += st.Size()
	}
	if total > overhead*smallLimit {
		t.Fatalf("the files hold %d bytes, limit %d", total, overhead*smallLimit)
	}
}

func TestTornTailIsCutAtEveryByte(t *testing.T) {
	whole := t.TempDir()
	r := open(t, whole)
	appendAll(t, r, Stdout, []byte("first"))
	appendAll(t, r, Stderr, []byte("second"))
	r.Close()
	name := segment{}.path("")
	file, err := os.ReadFile(filepath.Join(whole, name))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(file) + 1 {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), file[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		want := ""
		if n >= headerBytes+5 {
			want = "first"
		}
		if n == len(file) {
			want = "firstsecond"
		}
		r := open(t, dir)
		if got := r.End(); got != uint64(len(want)) {
			t.Fatalf("cut to %d bytes the log ends at %d, want %d", n, got, len(want))
		}
		appendAll(t, r, Stdout, []byte("third"))
		r.Finish()
		var got []byte
		for _, p := range drain(t, r, 0) {
			got = append(got, p.Data...)
		}
		if string(got) != want+"third" {
			t.Fatalf("cut to %d bytes the log reads %q, want %q", n, got, want+"third")
		}
		r.Close()
	}
}

func TestDamagedMiddleBecomesAGap(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	for range 3 {
		appendAll(t, r, Stdout, bytes.Repeat([]byte("x"), 100))
	}
	r.Close()
	if err := os.Truncate(segment{start: 100}.path(dir), 50); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir)
	if r.Start() != 200 || r.End() != 300 {
		t.Fatalf("kept [%d, %d), want [200, 300)", r.Start(), r.End())
	}
}

func TestAttachedReaderIsNeverOvertaken(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, dir)
		rd, err := r.Reader(0)
		if err != nil {
			t.Fatal(err)
		}
		appended := make(chan error, 1)
		go func() { appended <- r.Append(t.Context(), Stdout, bytes.Repeat([]byte("x"), 3*smallLimit)) }()
		synctest.Wait()
		if got := r.End(); got > smallLimit {
			t.Fatalf("%d bytes went in past a reader, limit %d", got, smallLimit)
		}
		var got uint64
		for got < 3*smallLimit {
			p, err := rd.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if p.Gap > 0 {
				t.Fatalf("a gap of %d at %d", p.Gap, p.Offset)
			}
			got += uint64(len(p.Data))
		}
		if err := <-appended; err != nil {
			t.Fatal(err)
		}
	})
}

// TestReaderWithOneByteToGoIsWaitedFor: of the oldest segment it lacks the last byte, which is as good as all of it.
func TestReaderWithOneByteToGoIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, dir)
		if err := r.Append(t.Context(), Stdout, bytes.Repeat([]byte("x"), smallLimit)); err != nil {
			t.Fatal(err)
		}
		last := r.Start() + smallLimit/segmentsPerRing - 1
		rd, err := r.Reader(last)
		if err != nil {
			t.Fatal(err)
		}
		appended := make(chan error, 1)
		go func() {
			appended <- r.Append(t.Context(), Stdout, bytes.Repeat([]byte("y"), smallLimit/segmentsPerRing))
		}()
		synctest.Wait()
		if r.Start() > last {
			t.Fatalf("the oldest byte is %d, the reader wants %d", r.Start(), last)
		}
		if p, err := rd.Next(t.Context()); err != nil || p.Gap > 0 || p.Offset != last {
			t.Errorf("it's handed %+v, %v", p, err)
		}
		if err := <-appended; err != nil {
			t.Fatal(err)
		}
	})
}

func TestDetachLetsTheProcessGoOn(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, dir)
		rd, err := r.Reader(0)
		if err != nil {
			t.Fatal(err)
		}
		appended := make(chan error, 1)
		go func() { appended <- r.Append(t.Context(), Stdout, bytes.Repeat([]byte("x"), 3*smallLimit)) }()
		synctest.Wait()
		rd.Close()
		if err := <-appended; err != nil {
			t.Fatal(err)
		}
		p, err := rd.Next(t.Context())
		if err != nil || p.Gap == 0 {
			t.Fatalf("a reader that was detached got %+v, %v, want a gap", p, err)
		}
	})
}

func TestAppendEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, dir)
		if _, err := r.Reader(0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		appended := make(chan error, 1)
		go func() { appended <- r.Append(ctx, Stdout, bytes.Repeat([]byte("x"), 3*smallLimit)) }()
		synctest.Wait()
		cancel()
		if err := <-appended; !errors.Is(err, context.Canceled) {
			t.Fatalf("append ended with %v, want %v", err, context.Canceled)
		}
	})
}

func TestReaderWaitsForOutputAndForTheEnd(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, dir)
		rd, err := r.Reader(0)
		if err != nil {
			t.Fatal(err)
		}
		defer rd.Close()
		got := make(chan error, 1)
		next := func() { _, err := rd.Next(t.Context()); got <- err }
		go next()
		synctest.Wait()
		appendAll(t, r, Stdout, []byte("x"))
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		go next()
		synctest.Wait()
		r.Finish()
		if err := <-got; err != io.EOF {
			t.Fatalf("after the end a reader got %v, want %v", err, io.EOF)
		}
	})
}

func TestNeighbouringRecordsOfAStreamAreJoined(t *testing.T) {
	r := open(t, t.TempDir())
	appendAll(t, r, Stdout, []byte("a"))
	appendAll(t, r, Stdout, []byte("b"))
	appendAll(t, r, Stderr, []byte("c"))
	r.Finish()
	got := drain(t, r, 0)
	if len(got) != 2 || string(got[0].Data) != "ab" || string(got[1].Data) != "c" || got[1].Stream != Stderr {
		t.Fatalf("got %+v", got)
	}
}

func TestShedKeepsTheLength(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	appendAll(t, r, Stdout, []byte("hello"))
	r.Finish()
	if err := r.Shed(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	r = open(t, dir)
	r.Finish()
	if got := drain(t, r, 1); len(got) != 1 || got[0].Gap != 4 {
		t.Fatalf("got %+v, want a gap of 4", got)
	}
}

func TestReaderBeyondTheEndIsRefused(t *testing.T) {
	r := open(t, t.TempDir())
	if _, err := r.Reader(1); !errors.Is(err, ErrBeyond) {
		t.Fatalf("got %v, want %v", err, ErrBeyond)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add(appendRecord(nil, Stdout, []byte("x")))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, data, rest, err := parseRecord(b)
		if err != nil {
			return
		}
		if got := append(appendRecord(nil, s, data), rest...); !bytes.Equal(got, b) {
			t.Fatalf("%x parses to %d %x, which is %x", b, s, data, got)
		}
	})
}

// TestExtendedRingWaitsForNoReader has a reader that takes nothing: the ring grows beyond its limit as far as it was extended, and loses nothing.
func TestExtendedRingWaitsForNoReader(t *testing.T) {
	r := open(t, t.TempDir())
	rd, err := r.Reader(0)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	data := bytes.Repeat([]byte("0123456789"), 10)
	fill := func() (n int) {
		full, cancel := context.WithCancel(context.Background())
		cancel()
		for r.Append(full, Stdout, data) == nil {
			n += len(data)
		}
		return n
	}
	if n := fill(); n > smallLimit {
		t.Errorf("it took %d bytes", n)
	}
	r.Extend(1000)
	if n := fill(); n < 900 || n > 1000 {
		t.Errorf("extended by 1000 it took %d bytes more", n)
	}
	end := r.End()
	r.Finish()
	if p := drain(t, r, 0); p[0].Gap != 0 || p[len(p)-1].End() != end {
		t.Errorf("it's read from %+v to %d, want to %d", p[0], p[len(p)-1].End(), end)
	}
}
