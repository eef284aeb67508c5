package client

import "fmt"

// position is how far a session's log was read. It sees to it that the events of several connections are one log.
type position struct {
	started bool  // the started event was seen
	at      int64 // bytes of output seen or told to be dropped
}

// advance moves past an event. fresh is false for one that was seen before; of output that was seen in part, the rest is returned. Missing
// bytes are an error: the connection is of no use.
func (p *position) advance(e Event) (out Event, fresh bool, err error) {
	switch e.Type {
	case EventStarted:
		fresh = !p.started
		p.started = true
		e.Offset = p.at
		return e, fresh, nil
	case EventCreated:
		return e, true, nil
	case EventLost:
		e.Offset = p.at
		return e, true, nil
	case EventGap:
		if e.From > p.at {
			return e, false, fmt.Errorf("bytes %d to %d are missing before a gap", p.at, e.From)
		}
		e.From = p.at
	case EventStdout, EventStderr:
		begin := e.Offset - e.length()
		if begin > p.at {
			return e, false, fmt.Errorf("bytes %d to %d are missing", p.at, begin)
		}
		if begin < 0 {
			return e, false, fmt.Errorf("%d bytes can't end at offset %d", e.length(), e.Offset)
		}
		if seen := p.at - begin; seen > 0 {
			if e, err = e.without(seen); err != nil {
				return e, false, err
			}
		}
	case EventExit:
		if e.Offset != p.at {
			return e, false, fmt.Errorf("the session's log has %d bytes, %d arrived", e.Offset, p.at)
		}
		return e, true, nil
	}
	if e.Offset <= p.at {
		return e, false, nil
	}
	p.started = true
	p.at = e.Offset
	return e, true, nil
}
