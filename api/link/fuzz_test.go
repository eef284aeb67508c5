package link

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"pgregory.net/rapid"
)

// FuzzFrameReader reads anything: every frame it returns has a payload within the limit, the work is bounded by the input, and what it
// consumes adds up.
func FuzzFrameReader(f *testing.F) {
	good := appendFrame(nil, frame{kind: kindData, stream: 1, link: 2, payload: []byte("payload")})
	f.Add(good)
	f.Add(good[3:])
	f.Add(append(make([]byte, 50), good...))
	f.Add(corrupt(append([]byte{}, good...)))
	f.Add([]byte{magic0, magic0, magic1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newFrameReader(bytes.NewReader(b))
		used := int64(0)
		for {
			got, err := r.next()
			if err != nil {
				break
			}
			if len(got.payload) > MaxPayload {
				t.Fatalf("a payload of %d bytes", len(got.payload))
			}
			used += int64(headerLen + len(got.payload))
		}
		if used+r.garbage > int64(len(b)) {
			t.Fatalf("%d bytes of frames and %d of garbage in %d bytes", used, r.garbage, len(b))
		}
	})
}

// TestReaderRecoversFromAnyCut: however a stream is cut, after one filler every frame is found again, and none is invented.
func TestReaderRecoversFromAnyCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frames := func(link uint64) (all []byte, n int) {
			n = rapid.IntRange(1, 5).Draw(t, "frames")
			for range n {
				payload := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "payload")
				inner := appendFrame(nil, frame{kind: kindData, link: 99, payload: payload}) // a frame inside a frame
				all = appendFrame(all, frame{kind: kindData, stream: 1, link: link, payload: inner})
			}
			return all, n
		}
		before, _ := frames(1)
		after, want := frames(2)
		from := rapid.SampledFrom([]int{0, 0, headerLen}).Draw(t, "from") // headerLen: the reader starts in a payload
		cut := rapid.IntRange(from, len(before)).Draw(t, "cut")
		stream := append(append(append([]byte{}, before[from:cut]...), make([]byte, MaxFrame)...), after...)
		r, got := newFrameReader(bytes.NewReader(stream)), 0
		for {
			f, err := r.next()
			if err != nil {
				break
			}
			if f.link == 2 {
				got++
			}
			if f.link == 99 && from == 0 {
				t.Fatal("a frame was found inside another's payload")
			}
		}
		if got != want {
			t.Fatalf("found %d frames after the cut, want %d", got, want)
		}
	})
}

// TestFramesSurviveTheWire: what is appended is what is read.
func TestFramesSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := frame{
			kind: kind(rapid.Byte().Draw(t, "kind")), flags: rapid.Byte().Draw(t, "flags"), stream: rapid.Uint32().Draw(t, "stream"),
			link: rapid.Uint64().Draw(t, "link"), payload: rapid.SliceOfN(rapid.Byte(), 0, 1000).Draw(t, "payload"),
		}
		got, err := newFrameReader(bytes.NewReader(appendFrame(nil, want))).next()
		if err != nil || got.kind != want.kind || got.flags != want.flags || got.stream != want.stream || got.link != want.link || !bytes.Equal(got.payload, want.payload) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

// TestDamagedFramesAreNone flips each bit of a frame: none of them is read as one, and the next frame is.
func TestDamagedFramesAreNone(t *testing.T) {
	good := appendFrame(nil, frame{kind: kindData, stream: 1, link: 2, payload: []byte("payload")})
	next := appendFrame(make([]byte, MaxFrame), frame{kind: kindData, stream: 1, link: 3})
	for bit := range 8 * len(good) {
		damaged := bytes.Clone(good)
		damaged[bit/8] ^= 1 << (bit % 8)
		f, err := newFrameReader(bytes.NewReader(append(damaged, next...))).next()
		if err != nil || f.link != 3 {
			t.Errorf("with bit %d flipped a frame of link %d with %q is read, %v", bit, f.link, f.payload, err)
		}
	}
}

// FuzzSync decodes anything; what it takes can be encoded again and is the same.
func FuzzSync(f *testing.F) {
	s := Sync{Execution: "exe_a", Epoch: 1, Adopt: true, Hostname: "h"}
	f.Add(s.encode())
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		version, s, ok := decodeSync(5, b)
		if !ok {
			return
		}
		again, s2, ok := decodeSync(5, s.encode())
		if !ok || again != version || s2 != s {
			t.Fatalf("%+v became %+v", s, s2)
		}
	})
}

// script is a sequence of frames as a fuzzer writes it: kind, flags, stream, length of the payload, payload's bytes.
func script(b []byte, link uint64) (frames []frame) {
	for len(b) >= 5 {
		n := int(binary.LittleEndian.Uint16(b[3:])) % (MaxPayload + 1)
		f := frame{kind: kind(b[0]), flags: b[1], stream: uint32(b[2]), link: link, payload: make([]byte, n)}
		b = b[5+copy(f.payload, b[5:]):]
		frames = append(frames, f)
	}
	return frames
}

func seedScripts(f *testing.F) {
	f.Add([]byte{byte(kindData), 0, 1, 3, 0, 'a', 'b', 'c', byte(kindClose), 0, 1, 0, 0})
	f.Add([]byte{byte(kindWindow), 0, 1, 4, 0, 1, 0, 0, 0, byte(kindReset), 0, 2, 4, 0, 1, 0, 0, 0})
	f.Add([]byte{byte(kindOpen), 0, 1, 0, 0, byte(kindData), 1, 1, 255, 255})
	f.Add([]byte{byte(kindSync), 0, 0, 2, 0, 1, 0})
}

// FuzzHostStreams plays a guest that sends any frames for two streams: memory is bounded, and every Recv ends.
func FuzzHostStreams(f *testing.F) {
	seedScripts(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWriter(io.Discard)
		w.restart(7)
		m := newMux(7, w, true)
		var streams []*Stream
		for range 2 {
			s, err := m.open(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, s)
		}
		play(t, m, streams, script(b, 7))
	})
}

// FuzzGuestStreams plays a host that sends any frames.
func FuzzGuestStreams(f *testing.F) {
	seedScripts(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWriter(io.Discard)
		w.restart(7)
		play(t, newMux(7, w, false), nil, script(b, 7))
	})
}

func play(t *testing.T, m *mux, streams []*Stream, frames []frame) {
	for i, f := range frames {
		err := m.handle(f)
		var protocol *ProtocolError
		if err != nil && !errors.As(err, &protocol) {
			t.Fatalf("frame %d ended the link with %v", i, err)
		}
		if err != nil {
			m.fail(err)
			break
		}
		if s := m.accept(); s != nil {
			streams = append(streams, s)
		}
		for _, s := range streams {
			held := 0
			for _, p := range s.queue {
				held += cost(len(p.data))
			}
			if held > Window {
				t.Fatalf("stream %d holds %d bytes", s.id, held)
			}
		}
	}
	m.fail(ErrClosed)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range streams {
		for {
			if _, err := s.Recv(cancelled); err != nil {
				break
			}
		}
	}
}
