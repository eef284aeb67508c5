package process

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestLogIsAQueueWithOffsets compares the log with the plainest model: all bytes ever written, and where each came from.
func TestLogIsAQueueWithOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLog()
		var written []byte
		var sources []Source
		acknowledged := 0
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				s := rapid.SampledFrom([]Source{Stdout, Stderr}).Draw(t, "source")
				data := rapid.SliceOfN(rapid.Byte(), 0, 9000).Draw(t, "data")
				l.mu.Lock()
				fits := len(data) <= l.room()
				l.mu.Unlock()
				if !fits {
					t.Skip("it would wait")
				}
				l.append(nil, s, data)
				written = append(written, data...)
				for range data {
					sources = append(sources, s)
				}
			},
			"acknowledge": func(t *rapid.T) {
				offset := rapid.IntRange(0, len(written)+1).Draw(t, "offset")
				if ok := l.acknowledge(uint64(offset)); ok != (offset <= len(written)) {
					t.Fatalf("acknowledge %d of %d: %v", offset, len(written), ok)
				}
				if offset <= len(written) {
					acknowledged = max(acknowledged, offset)
				}
			},
			"read": func(t *rapid.T) {
				offset := rapid.IntRange(0, len(written)).Draw(t, "offset")
				b := make([]byte, rapid.IntRange(1, 20000).Draw(t, "size"))
				at, s, n, closed, _ := l.read(uint64(offset), b)
				if at != uint64(max(offset, acknowledged)) || closed {
					t.Fatalf("read at %d of an open log from %d gave %d, closed %v", offset, acknowledged, at, closed)
				}
				if n == 0 && at != uint64(len(written)) {
					t.Fatalf("nothing at %d of %d", at, len(written))
				}
				if !bytes.Equal(b[:n], written[at:at+uint64(n)]) {
					t.Fatalf("wrong bytes at %d", at)
				}
				for i := range n {
					if sources[at+uint64(i)] != s {
						t.Fatalf("byte %d has the wrong source", at+uint64(i))
					}
				}
			},
			"": func(t *rapid.T) {
				if len(l.ring) > KeptBytes || len(l.parts)*partCost > KeptBytes {
					t.Fatalf("%d bytes and %d parts are kept", len(l.ring), len(l.parts))
				}
			},
		})
	})
}

func TestAlternatingOutputIsBoundedToo(t *testing.T) {
	l := newLog()
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; l.append(stop, Source(1+i%2), []byte{byte(i)}); i++ {
		}
	}()
	for full := false; !full; {
		l.mu.Lock()
		full = l.room() <= 0
		changed := l.changed
		l.mu.Unlock()
		if !full {
			<-changed
		}
	}
	if n := len(l.parts); n > KeptBytes/partCost {
		t.Errorf("%d parts are kept", n)
	}
	close(stop)
	<-done
}
