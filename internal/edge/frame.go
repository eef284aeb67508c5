package edge

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	space "github.com/space-platform/space"
)

// The channels of a WebSocket, the first byte of each message.
const (
	channelStdin byte = iota
	channelStdout
	channelStderr
	channelControl
)

// maxFrame bounds a message from a client: 32 KiB of standard input and its channel.
const maxFrame = 32<<10 + 1

// frame is a message from a client: exactly one of its fields is set.
type frame struct {
	stdin      []byte
	signal     int32
	rows, cols int
	closeStdin bool
}

// readFrame reads a message, or says what is wrong with it.
func readFrame(b []byte) (frame, error) {
	if len(b) == 0 {
		return frame{}, space.FieldErrorf("channel", "is missing: a message begins with the byte of its channel")
	}
	switch b[0] {
	case channelStdin:
		return frame{stdin: b[1:]}, nil
	case channelControl:
		return readControl(b[1:])
	}
	return frame{}, space.FieldErrorf("channel", "is %d: want %d for standard input or %d for control", b[0], channelStdin, channelControl)
}

func readControl(b []byte) (frame, error) {
	var kind, name string
	var f frame
	if err := decodeObject(b, map[string]any{"type": &kind, "signal": &name, "rows": &f.rows, "cols": &f.cols}); err != nil {
		return frame{}, err
	}
	sized, named := f.rows != 0 || f.cols != 0, name != ""
	switch {
	case kind == "resize" && !named:
		return f, checkTerminal(f.rows, f.cols)
	case kind == "signal" && !sized:
		n, err := checkSignal("signal", name)
		return frame{signal: n}, err
	case kind == "close_stdin" && !sized && !named:
		return frame{closeStdin: true}, nil
	}
	return frame{}, space.FieldErrorf("type", "is %q: want resize with rows and cols, signal with a signal, or close_stdin", space.Clip(kind))
}

// message is an event as a WebSocket carries it.
func (e event) message() ([]byte, error) {
	fields, _ := e.data.(map[string]any)
	switch e.name {
	case "stdout", "stderr":
		data, _ := fields["data"].([]byte)
		channel := channelStdout
		if e.name == "stderr" {
			channel = channelStderr
		}
		return append([]byte{channel}, data...), nil
	}
	out := map[string]any{"type": e.name}
	maps.Copy(out, fields)
	if fields == nil {
		out["problem"] = e.data
	}
	if e.name == "exit" {
		n, err := strconv.ParseUint(e.id, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("encode the end of a session: %w", err)
		}
		out["offset"] = n
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.name, err)
	}
	return append([]byte{channelControl}, b...), nil
}
