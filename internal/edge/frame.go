package edge

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/strictjson"
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
	var in struct {
		Type   string `json:"type"`
		Signal string `json:"signal,omitempty"`
		Rows   int    `json:"rows,omitempty"`
		Cols   int    `json:"cols,omitempty"`
	}
	if err := strictjson.Decode(b, &in); err != nil {
		return frame{}, err
	}
	sized, named := in.Rows != 0 || in.Cols != 0, in.Signal != ""
	switch {
	case in.Type == "resize" && !named:
		return frame{rows: in.Rows, cols: in.Cols}, checkTerminal(in.Rows, in.Cols)
	case in.Type == "signal" && !sized:
		n, err := checkSignal("signal", in.Signal)
		return frame{signal: n}, err
	case in.Type == "close_stdin" && !sized && !named:
		return frame{closeStdin: true}, nil
	}
	return frame{}, space.FieldErrorf("type", "is %q: want resize with rows and cols, signal with a signal, or close_stdin", space.Clip(in.Type))
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
