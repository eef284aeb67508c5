package client

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestLogOverManyConnections: however a log is cut into events, dropped and repeated, what is let through is the log.
func TestLogOverManyConnections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "log")
		var p position
		var got []byte
		for exited := false; !exited; {
			from := rapid.Int64Range(0, p.at).Draw(t, "server starts at") // at or before what the client asked for
			for at := from; ; {
				if at == int64(len(log)) {
					_, exited, _ = p.advance(Event{Type: EventExit, Offset: at})
					break
				}
				n := rapid.Int64Range(1, int64(len(log))-at).Draw(t, "event length")
				e, fresh, err := p.advance(Event{Type: EventStdout, Offset: at + n, Data: log[at : at+n]})
				if err != nil {
					t.Fatal(err)
				}
				if fresh {
					got = append(got, e.Data...)
				}
				if at += n; rapid.Bool().Draw(t, "drop the connection") {
					break
				}
			}
		}
		if !bytes.Equal(got, log) {
			t.Fatalf("got %d bytes %x, want %d %x", len(got), got, len(log), log)
		}
	})
}

func TestMissingBytesAreAnError(t *testing.T) {
	for name, e := range map[string]Event{
		"output": {Type: EventStdout, Offset: 12, Data: []byte("x")},
		"gap":    {Type: EventGap, From: 11, Offset: 15},
		"exit":   {Type: EventExit, Offset: 11},
		"absurd": {Type: EventStderr, Offset: 1, Data: []byte("four")},
	} {
		p := position{started: true, at: 10}
		if name == "absurd" {
			p.at = 0
		}
		if _, _, err := p.advance(e); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestGapMovesOnAndStartedComesOnce(t *testing.T) {
	var p position
	for i, c := range []struct {
		e     Event
		fresh bool
		at    int64
	}{
		{Event{Type: EventStarted}, true, 0},
		{Event{Type: EventStarted}, false, 0},
		{Event{Type: EventGap, From: 0, Offset: 100}, true, 100},
		{Event{Type: EventGap, From: 50, Offset: 100}, false, 100},
		{Event{Type: EventStdout, Offset: 103, Data: []byte("abc")}, true, 103},
		{Event{Type: EventLost}, true, 103},
	} {
		got, fresh, err := p.advance(c.e)
		if err != nil || fresh != c.fresh || p.at != c.at || got.Offset != c.at {
			t.Errorf("event %d: %+v, fresh %t, at %d, %v; want fresh %t, at %d", i, got, fresh, p.at, err, c.fresh, c.at)
		}
	}
}
