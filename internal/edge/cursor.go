package edge

import (
	"math"
	"strconv"
	"time"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/peer"
)

// cursor is how far one client has got in a session's log. Events go through next one by one; what it lets out continues exactly where the
// client is, whatever the other side sends.
type cursor struct {
	offset  uint64 // bytes of the log that the client has, or knows to be gone
	started bool   // it has seen `started`
}

// next returns the part of an internal event that the client lacks. send is false if it has all of it. An error means that this stream
// can't go on: it left bytes out, or isn't of the log that the client speaks of.
func (c *cursor) next(m *sessionv1.AttachResponse) (e event, send bool, err error) {
	switch ev := m.GetEvent().(type) {
	case *sessionv1.AttachResponse_Started:
		return c.start(ev.Started)
	case *sessionv1.AttachResponse_Output:
		return c.output(ev.Output)
	case *sessionv1.AttachResponse_Gap:
		return c.gap(ev.Gap)
	case *sessionv1.AttachResponse_Exit:
		return c.exit(ev.Exit)
	case *sessionv1.AttachResponse_Lost:
		return lostEvent(peer.MessageError(ev.Lost.GetError())), true, nil
	case *sessionv1.AttachResponse_Ended:
		return endedEvent(ev.Ended.GetReason()), true, nil
	}
	return event{}, false, space.Errorf(space.CodeInternal, "an event of a kind that the edge doesn't know")
}

func (c *cursor) start(s *sessionv1.Started) (event, bool, error) {
	if c.started {
		return event{}, false, nil
	}
	c.started = true
	data := map[string]any{"at": s.GetAt().AsTime().Format(time.RFC3339Nano)}
	if s.GetPid() != 0 {
		data["pid"] = s.GetPid()
	}
	return event{name: "started", id: "0", data: data}, true, nil
}

func (c *cursor) output(o *sessionv1.Output) (event, bool, error) {
	from, to, err := c.span(o.GetOffset(), uint64(len(o.GetData())))
	if err != nil || to == c.offset {
		return event{}, false, err
	}
	name := "stdout"
	if o.GetStream() == sessionv1.Stream_STREAM_STDERR {
		name = "stderr"
	}
	c.offset = to
	return event{name: name, id: decimal(to), data: map[string]any{"data": o.GetData()[from-o.GetOffset():]}}, true, nil
}

func (c *cursor) gap(g *sessionv1.Gap) (event, bool, error) {
	if g.GetTo() < g.GetFrom() {
		return event{}, false, space.Errorf(space.CodeInternal, "a gap that ends before it begins")
	}
	from, to, err := c.span(g.GetFrom(), g.GetTo()-g.GetFrom())
	if err != nil || to == c.offset {
		return event{}, false, err
	}
	c.offset = to
	return event{name: "gap", id: decimal(to), data: map[string]any{"from": from, "to": to}}, true, nil
}

// span cuts what the client has off a piece of the log: [from, to) is what it lacks, empty at the cursor if it lacks nothing.
func (c *cursor) span(offset, length uint64) (from, to uint64, err error) {
	switch {
	case offset > math.MaxInt64 || length > math.MaxInt64:
		return 0, 0, space.Errorf(space.CodeInternal, "an offset beyond any log")
	case offset > c.offset:
		return 0, 0, space.Errorf(space.CodeInternal, "the stream left out bytes %d to %d", c.offset, offset)
	case offset+length <= c.offset:
		return c.offset, c.offset, nil
	}
	return c.offset, offset + length, nil
}

func (c *cursor) exit(x *sessionv1.Exit) (event, bool, error) {
	switch {
	case x.GetOffset() > c.offset:
		return event{}, false, space.Errorf(space.CodeInternal, "the stream left out bytes %d to %d", c.offset, x.GetOffset())
	case x.GetOffset() < c.offset:
		return event{}, false, beyondLog(x.GetOffset())
	}
	data := map[string]any{"code": x.GetCode()}
	if x.GetSignal() != 0 {
		data = map[string]any{"code": nil, "signal": x.GetSignalName()}
	}
	if x.GetError() != "" {
		data["error"] = x.GetError()
	}
	if x.GetTimedOut() {
		data["timed_out"] = true
	}
	if x.GetStopped() {
		data["stopped"] = true
	}
	return event{name: "exit", id: decimal(x.GetOffset()), data: data, last: true}, true, nil
}

// beyondLog refuses a cursor that no event of this session can have had.
func beyondLog(length uint64) error {
	return space.FieldErrorf(lastEventID, "the session's log has %d bytes; want the id of the last event that you received", length)
}

func lostEvent(err error) event {
	if err == nil {
		err = space.Errorf(space.CodeExecutionLost, "the sandbox's machine is gone")
	}
	return event{name: "lost", data: problem(err), last: true}
}

func endedEvent(reason string) event {
	return event{name: "ended", data: map[string]any{"reason": reason}, last: true}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
