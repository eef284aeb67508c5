package e2b

import (
	"encoding/base64"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/space-platform/space/api/gen/e2b/process"
)

// event is one message of a process's stream, of Start and of Connect, which look the same on the wire. Output, which is most of what is sent, is in it as it
// came, in base64 if it came so: JSON has it in base64 again.
type event struct {
	*process.ProcessEvent // nil of output
	kind                  string
	data, encoded         []byte // output: one of both
}

// The kinds of output.
const (
	kindStdout = "stdout"
	kindStderr = "stderr"
	kindPty    = "pty"
)

// message is the event as a message of Start.
func (e *event) message() (*process.StartResponse, error) {
	if e.ProcessEvent != nil {
		return &process.StartResponse{Event: e.ProcessEvent}, nil
	}
	data := e.data
	if e.encoded != nil {
		var err error
		if data, err = base64.StdEncoding.AppendDecode(nil, e.encoded); err != nil {
			return nil, fmt.Errorf("read output: %w", err)
		}
	}
	d := &process.ProcessEvent_DataEvent{}
	switch e.kind {
	case kindPty:
		d.Output = &process.ProcessEvent_DataEvent_Pty{Pty: data}
	case kindStderr:
		d.Output = &process.ProcessEvent_DataEvent_Stderr{Stderr: data}
	default:
		d.Output = &process.ProcessEvent_DataEvent_Stdout{Stdout: data}
	}
	return &process.StartResponse{Event: &process.ProcessEvent{Event: &process.ProcessEvent_Data{Data: d}}}, nil
}

// messageOf is what a codec has to write.
func messageOf(m any) (proto.Message, error) {
	switch m := m.(type) {
	case *event:
		return m.message()
	case proto.Message:
		return m, nil
	}
	return nil, fmt.Errorf("%T is no message", m)
}

// jsonCodec is Connect's JSON, with a short way for the output of commands. Fields that aren't known are ignored.
type jsonCodec struct{}

// Name implements connect.Codec.
func (jsonCodec) Name() string { return "json" }

// Marshal implements connect.Codec.
func (c jsonCodec) Marshal(m any) ([]byte, error) { return c.MarshalAppend(nil, m) }

// MarshalAppend is Marshal at the end of what is there: Connect has buffers that it uses again.
func (jsonCodec) MarshalAppend(to []byte, m any) ([]byte, error) {
	if e, ok := m.(*event); ok && e.ProcessEvent == nil {
		return e.appendOutput(to), nil
	}
	message, err := messageOf(m)
	if err != nil {
		return nil, err
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

// appendOutput appends output as JSON.
func (e *event) appendOutput(to []byte) []byte {
	const before, after = `{"event":{"data":{"`, `"}}}`
	out := slices.Grow(to, len(before)+len(e.kind)+len(`":"`)+max(len(e.encoded), base64.StdEncoding.EncodedLen(len(e.data)))+len(after))
	out = append(append(append(out, before...), e.kind...), `":"`...)
	if e.encoded != nil {
		out = append(out, e.encoded...)
	} else {
		out = base64.StdEncoding.AppendEncode(out, e.data)
	}
	return append(out, after...)
}

// protoCodec is Connect's binary form.
type protoCodec struct{}

// Name implements connect.Codec.
func (protoCodec) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (protoCodec) Marshal(m any) ([]byte, error) {
	message, err := messageOf(m)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(message)
}

// Unmarshal implements connect.Codec.
func (protoCodec) Unmarshal(b []byte, m any) error {
	message, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", m)
	}
	return proto.Unmarshal(b, message)
}
