package client

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	api "github.com/space-platform/space/api/gen/http"
)

// EventType is the kind of an event of a session.
type EventType string

// The events of a session.
const (
	EventCreated EventType = "created" // of Plane.Run, the first one: the session is there
	EventStarted EventType = "started" // the process runs
	EventStdout  EventType = "stdout"  // Data was written to its standard output
	EventStderr  EventType = "stderr"  // Data was written to its standard error
	EventGap     EventType = "gap"     // bytes From to Offset were dropped: nobody was attached and the log was full
	EventExit    EventType = "exit"    // the process has ended; the last event
	EventLost    EventType = "lost"    // the sandbox's execution is gone; the last event
)

// eventEnded ends a connection, not the session; it's not shown.
const eventEnded EventType = "ended"

// Event is one event of a session. Which fields mean something depends on its type.
type Event struct {
	Type    EventType
	Created *SessionCreated // created
	Offset  int64           // length of the session's output, stdout and stderr together, after this event
	Encoded []byte          // instead of Data, if that was asked for: in base64, until the next event is read
	Data    []byte          // stdout, stderr
	From    int64           // gap: the first byte that was dropped
	At      time.Time       // started
	PID     int64           // started: of the process, in the sandbox; 0 if it isn't known any more
	Exit    Exit            // exit
	Lost    *Error          // lost

	reason string // ended
}

// Exit is how a process ended: with a code, by a signal, or never having been started.
type Exit struct {
	Code     int    // when Signal is empty
	Signal   string // such as SIGKILL
	Error    string // why the program couldn't be started; Code is 126 or 127 then
	TimedOut bool   // the session's timeout was over, and it was killed for that
	Stopped  bool   // it ended while its sandbox was being stopped
}

// payload is the union of what events carry in their data.
type payload struct {
	At       time.Time `json:"at"`
	PID      int64     `json:"pid"`
	Data     []byte    `json:"data"`
	From     int64     `json:"from"`
	To       int64     `json:"to"`
	Code     *int      `json:"code"`
	Signal   string    `json:"signal"`
	Error    string    `json:"error"`
	TimedOut bool      `json:"timed_out"`
	Stopped  bool      `json:"stopped"`
	Reason   string    `json:"reason"`
}

// understand turns a message into an event. known is false for a type that a newer server may send.
func understand(m message, encoded bool) (e Event, known bool, err error) {
	e.Type = EventType(m.event)
	switch e.Type {
	case EventLost:
		e.Lost, err = lost(m.data)
		return e, true, err
	case EventCreated:
		e.Created, err = created(m.data)
		return e, true, err
	}
	var p payload
	plain := false
	if encoded {
		e.Encoded, plain = plainText(m.data)
	} else {
		p.Data, plain = plainData(m.data)
	}
	if !plain {
		if err := json.Unmarshal(m.data, &p); err != nil {
			return e, false, fmt.Errorf("read a %s event: %w", clip(m.event), err)
		}
	}
	switch e.Type {
	case EventStarted:
		e.At, e.PID = p.At, p.PID
	case EventStdout, EventStderr:
		e.Data = p.Data
	case EventGap:
		e.From = p.From
	case EventExit:
		e.Exit, err = exit(p)
	case eventEnded:
		e.reason = p.Reason
		return e, true, nil
	default:
		return e, false, nil
	}
	if err == nil {
		e.Offset, err = offset(m.id)
	}
	if err != nil {
		return e, false, fmt.Errorf("read a %s event: %w", m.event, err)
	}
	return e, true, nil
}

// plainText is the base64 of an event that has nothing but data in it. That it's good base64 is known by its form only: no byte ends the string that it's in.
func plainText(document []byte) (text []byte, ok bool) {
	text, before := bytes.CutPrefix(document, []byte(`{"data":"`))
	text, after := bytes.CutSuffix(text, []byte(`"}`))
	if !before || !after || len(text)%4 != 0 || bytes.IndexByte(text, '"') >= 0 || bytes.IndexByte(text, '\\') >= 0 {
		return nil, false
	}
	return text, true
}

// length is how much output there is in an event.
func (e Event) length() int64 {
	if e.Encoded == nil {
		return int64(len(e.Data))
	}
	return int64(base64.StdEncoding.DecodedLen(len(e.Encoded)) - bytes.Count(e.Encoded[max(0, len(e.Encoded)-2):], []byte("=")))
}

// without leaves out the first bytes of output.
func (e Event) without(seen int64) (Event, error) {
	if e.Encoded == nil {
		e.Data = e.Data[min(seen, int64(len(e.Data))):]
		return e, nil
	}
	data, err := base64.StdEncoding.AppendDecode(nil, e.Encoded)
	if err != nil {
		return e, fmt.Errorf("read output: %w", err)
	}
	e.Encoded = base64.StdEncoding.AppendEncode([]byte{}, data[min(seen, int64(len(data))):])
	return e, nil
}

// plainData reads the data of an event that has nothing else in it, as output has, which is most of what comes.
func plainData(document []byte) (data []byte, ok bool) {
	text, ok := bytes.CutPrefix(document, []byte(`{"data":"`))
	if !ok {
		return nil, false
	}
	if text, ok = bytes.CutSuffix(text, []byte(`"}`)); !ok {
		return nil, false
	}
	data, err := base64.StdEncoding.AppendDecode(nil, text) // refuses all that base64 hasn't: quotation marks and escapes, too
	return data, err == nil
}

func exit(p payload) (Exit, error) {
	if (p.Code == nil) == (p.Signal == "") {
		return Exit{}, errors.New("exactly one of code and signal must be given")
	}
	out := Exit{Signal: p.Signal, Error: p.Error, TimedOut: p.TimedOut, Stopped: p.Stopped}
	if p.Code != nil {
		out.Code = *p.Code
	}
	return out, nil
}

func created(data []byte) (*SessionCreated, error) {
	var c SessionCreated
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("read a created event: %w", err)
	}
	if c.Session.Id == "" {
		return nil, errors.New("a created event names no session")
	}
	return &c, nil
}

func lost(data []byte) (*Error, error) {
	var p api.Problem
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("read a lost event: %w", err)
	}
	return fromProblem(p, 0), nil
}

func offset(id string) (int64, error) {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("its id %q is no offset", clip(id))
	}
	return n, nil
}

// clip shortens a server's text so that an error can repeat it.
func clip(s string) string { return s[:min(len(s), 64)] }
