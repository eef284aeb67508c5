package edge

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

// follow gives events to a cursor, and fails unless what comes out continues exactly where the client is.
func follow(t interface{ Fatalf(string, ...any) }, c *cursor, events []*sessionv1.AttachResponse) (data []byte, ended bool) {
	for _, m := range events {
		at := c.offset
		e, send, err := c.next(m)
		if err != nil || !send {
			if c.offset != at {
				t.Fatalf("the cursor moved from %d to %d and nothing was sent", at, c.offset)
			}
			if err != nil {
				return data, true
			}
			continue
		}
		moved := c.offset - at
		switch e.name {
		case "stdout", "stderr":
			b := e.data.(map[string]any)["data"].([]byte)
			if uint64(len(b)) != moved || moved == 0 {
				t.Fatalf("%d bytes were sent and the cursor moved by %d", len(b), moved)
			}
			data = append(data, b...)
		case "gap":
			g := e.data.(map[string]any)
			if g["from"] != at || g["to"] != c.offset || moved == 0 {
				t.Fatalf("gap %v from %d to %d", g, at, c.offset)
			}
			data = append(data, make([]byte, min(moved, 1<<20))...)
		default:
			if moved != 0 {
				t.Fatalf("%s moved the cursor by %d", e.name, moved)
			}
		}
		if e.id != "" && e.name != "started" && e.id != decimal(c.offset) {
			t.Fatalf("event %s has id %s at %d", e.name, e.id, c.offset)
		}
		if e.last {
			return data, true
		}
	}
	return data, false
}

// TestReconnectsLoseNothing cuts a session's stream anywhere, any number of times; the client comes back with what it has, and the
// node begins anywhere at or before it.
func TestReconnectsLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "log")
		var got []byte
		c := cursor{}
		for ended := false; !ended; {
			from := rapid.Uint64Range(0, c.offset).Draw(t, "from")
			events := chunks(t, log, from)
			cut := rapid.IntRange(1, len(events)).Draw(t, "cut")
			var data []byte
			data, _ = follow(t, &c, events[:cut])
			got = append(got, data...)
			ended = cut == len(events)
			c = cursor{offset: c.offset, started: true}
		}
		if string(got) != string(log) {
			t.Fatalf("got %q, want %q", got, log)
		}
	})
}

// chunks is a node's stream from an offset to the exit, in pieces of any size and stream.
func chunks(t *rapid.T, log []byte, from uint64) []*sessionv1.AttachResponse {
	out := []*sessionv1.AttachResponse{started()}
	for int(from) < len(log) {
		n := rapid.IntRange(1, len(log)-int(from)).Draw(t, "chunk")
		s := rapid.SampledFrom([]sessionv1.Stream{stdout, stderr}).Draw(t, "stream")
		out = append(out, output(s, from, string(log[from:from+uint64(n)])))
		from += uint64(n)
	}
	return append(out, exit(&sessionv1.Exit{Offset: uint64(len(log))}))
}

// TestHolesOfAnySizeAreRefused: a stream that leaves out a byte is as bad as one that leaves out all.
func TestHolesOfAnySizeAreRefused(t *testing.T) {
	for _, hole := range []uint64{1, 2, 1000} {
		for name, m := range map[string]*sessionv1.AttachResponse{
			"output": output(stdout, 10+hole, "later"), "gap": gap(10+hole, 20+hole), "exit": exit(&sessionv1.Exit{Offset: 10 + hole}),
		} {
			c := cursor{offset: 10, started: true}
			if e, send, err := c.next(m); err == nil || send || c.offset != 10 {
				t.Errorf("%s after a hole of %d: %+v, sent %v, at %d", name, hole, e, send, c.offset)
			}
		}
	}
}

// FuzzResume has any header, and any events after it: the cursor never leaves out, repeats or overflows.
func FuzzResume(f *testing.F) {
	f.Add("0", []byte{0, 0, 3})
	f.Add("17", []byte{0, 10, 9, 1, 19, 4})
	f.Add("9999999999999999999", []byte{0, 255, 255})
	f.Add("17", []byte{0, 101, 3, 2, 101, 3}) // a byte is missing
	f.Add("-1", []byte{})
	f.Fuzz(func(t *testing.T, header string, script []byte) {
		c, err := readCursor(lastEventID, []string{header})
		if err != nil {
			if c != (cursor{}) {
				t.Fatalf("a refused header moved the cursor to %d", c.offset)
			}
			return
		}
		if decimal(c.offset) != trimZeros(header) || !c.started {
			t.Fatalf("header %q became %d", header, c.offset)
		}
		follow(t, &c, scripted(c.offset, script))
	})
}

func trimZeros(s string) string {
	for len(s) > 1 && s[0] == '0' {
		s = s[1:]
	}
	return s
}

// scripted makes events around an offset out of fuzzed bytes: three each.
func scripted(base uint64, script []byte) []*sessionv1.AttachResponse {
	var out []*sessionv1.AttachResponse
	for ; len(script) >= 3; script = script[3:] {
		at := base + uint64(script[1]) - 100 // wraps below 0 as a broken peer's would
		n := uint64(script[2])
		switch script[0] % 6 {
		case 0, 1:
			out = append(out, output(sessionv1.Stream(script[0]%3), at, string(make([]byte, n))))
		case 2:
			out = append(out, gap(at, at+n))
		case 3:
			out = append(out, gap(at, at-n))
		case 4:
			out = append(out, exit(&sessionv1.Exit{Offset: at}))
		case 5:
			out = append(out, output(stdout, binary.BigEndian.Uint64(append(make([]byte, 5), script[:3]...))<<40, "x"))
		}
	}
	return out
}
