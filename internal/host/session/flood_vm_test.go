//go:build vm

package session

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"runtime"
	"testing"
	"time"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

// word is what a flood has at an offset that is a multiple of 8.
func word(offset uint64) uint64 { return offset * 0x9e3779b97f4a7c15 }

func flood(offset uint64, b []byte) {
	var w [8]byte
	for n := 0; n < len(b); {
		at := offset + uint64(n)
		binary.LittleEndian.PutUint64(w[:], word(at&^7))
		n += copy(b[n:], w[at%8:])
	}
}

// slow is a client that pauses again and again, and keeps nothing but a digest.
type slow struct {
	sum  hash.Hash
	got  uint64
	most uint64 // bytes of heap
	exit *sessionv1.Exit
}

func (s *slow) take(e *sessionv1.AttachResponse) error {
	const pauseEach = 8 << 20
	before := s.got / pauseEach
	s.sum.Write(e.GetOutput().GetData())
	s.got += uint64(len(e.GetOutput().GetData()))
	if e.GetExit() != nil {
		s.exit = e.GetExit()
	}
	if s.got/pauseEach > before {
		<-time.After(50 * time.Millisecond)
		s.most = max(s.most, heap())
	}
	return nil
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// TestSlowReaderGetsEveryByte floods a client: what it gets is exact, and this process keeps neither more nor less than a ring.
func TestSlowReaderGetsEveryByte(t *testing.T) {
	const size = 200<<20 + 5
	g, set := newFakeGuest(t), openSet(t, t.TempDir(), Limits{RingBytes: 4 << 20})
	set.Use(g.connect())
	id := space.NewID(space.PrefixSession)
	p := g.proc(id)
	p.change(func() {
		p.flood, p.length = flood, size
		p.exit = &sessionv1.Exit{Offset: size}
	})
	before := heap()
	c := &slow{sum: sha256.New()}
	began := time.Now()
	if err := set.Attach(t.Context(), Request{Session: id, Spec: &sessionv1.Spec{Argv: []string{"flood"}}}, c.take); err != nil {
		t.Fatal(err)
	}
	want, b := sha256.New(), make([]byte, 1<<20)
	for n := uint64(0); n < size; n += uint64(len(b)) {
		b = b[:min(uint64(len(b)), size-n)]
		flood(n, b)
		want.Write(b)
	}
	if c.got != size || string(c.sum.Sum(nil)) != string(want.Sum(nil)) || c.exit == nil {
		t.Errorf("got %d of %d bytes, the exit is %v", c.got, size, c.exit)
	}
	t.Logf("%d MiB in %s; the heap was %d kB, then at most %d", size>>20, time.Since(began).Round(time.Millisecond), before>>10, c.most>>10)
	if c.most > before+16<<20 {
		t.Errorf("the heap grew from %d to %d kB", before>>10, c.most>>10)
	}
}
