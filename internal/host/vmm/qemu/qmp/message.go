package qmp

import (
	"encoding/json"
	"errors"
	"fmt"
)

type kind int

const (
	unknown kind = iota // of a newer QEMU: ignored
	greeting
	event
	answered
)

// message is one line of QEMU's.
type message struct {
	kind  kind
	event Event
	id    uint64
	value json.RawMessage // what the command returned
	err   *Error
}

// parse reads a line. An answer without a number for an id can't be one of ours.
func parse(line []byte) (message, error) {
	var w struct {
		Greeting json.RawMessage `json:"QMP"`
		Event    string          `json:"event"`
		Data     json.RawMessage `json:"data"`
		Return   json.RawMessage `json:"return"`
		Error    *Error          `json:"error"`
		ID       *uint64         `json:"id"`
	}
	if err := json.Unmarshal(line, &w); err != nil {
		return message{}, fmt.Errorf("read a line of the monitor: %w", err)
	}
	switch {
	case w.Greeting != nil:
		return message{kind: greeting}, nil
	case w.Event != "":
		return message{kind: event, event: Event{Name: w.Event, Data: w.Data}}, nil
	case w.ID != nil && (w.Return != nil || w.Error != nil):
		return message{kind: answered, id: *w.ID, value: w.Return, err: w.Error}, nil
	case w.Error != nil:
		return message{}, fmt.Errorf("the monitor refused what wasn't a command: %w", w.Error)
	default:
		return message{}, nil
	}
}

// decode reads an answer into the caller's result.
func (m message) decode(result any) error {
	if m.err != nil {
		return m.err
	}
	if result == nil {
		return nil
	}
	if m.value == nil {
		return errors.New("the monitor returned nothing")
	}
	return json.Unmarshal(m.value, result)
}
