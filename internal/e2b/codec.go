package e2b

import (
	"encoding/base64"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/space-platform/space/api/gen/e2b/process"
)

// jsonCodec is Connect's JSON, with a short way for the output of commands, which is most of what is sent. Fields that aren't known are ignored.
type jsonCodec struct{}

// Name implements connect.Codec.
func (jsonCodec) Name() string { return "json" }

// Marshal implements connect.Codec.
func (c jsonCodec) Marshal(m any) ([]byte, error) { return c.MarshalAppend(nil, m) }

// MarshalAppend is Marshal at the end of what is there: Connect has buffers that it uses again.
func (jsonCodec) MarshalAppend(to []byte, m any) ([]byte, error) {
	switch m := m.(type) {
	case *process.StartResponse:
		if out, ok := appendOutput(to, m.GetEvent()); ok {
			return out, nil
		}
	case *process.ConnectResponse:
		if out, ok := appendOutput(to, m.GetEvent()); ok {
			return out, nil
		}
	}
	message, ok := m.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", m)
	}
	return protojson.MarshalOptions{}.MarshalAppend(to, message)
}

// Unmarshal implements connect.Codec.
func (jsonCodec) Unmarshal(b []byte, m any) error {
	message, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", m)
	}
	if len(b) == 0 {
		return fmt.Errorf("an empty message isn't JSON")
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, message)
}

// appendOutput appends an event if it's output.
func appendOutput(to []byte, e *process.ProcessEvent) (out []byte, ok bool) {
	var kind string
	var data []byte
	switch o := e.GetData().GetOutput().(type) {
	case *process.ProcessEvent_DataEvent_Stdout:
		kind, data = "stdout", o.Stdout
	case *process.ProcessEvent_DataEvent_Stderr:
		kind, data = "stderr", o.Stderr
	case *process.ProcessEvent_DataEvent_Pty:
		kind, data = "pty", o.Pty
	default:
		return to, false
	}
	const before, after = `{"event":{"data":{"`, `"}}}`
	out = slices.Grow(to, len(before)+len(kind)+len(`":"`)+base64.StdEncoding.EncodedLen(len(data))+len(after))
	out = append(append(append(out, before...), kind...), `":"`...)
	return append(base64.StdEncoding.AppendEncode(out, data), after...), true
}
