package e2b

import (
	"encoding/base64"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/space-platform/space/api/gen/e2b/process"
	"github.com/space-platform/space/client"
)

// TestOutputInBothCodecs: what takes the short way, in base64 or not, is read as the message that it is, of Start and of Connect.
func TestOutputInBothCodecs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := stream{process: &runningProcess{tty: rapid.Bool().Draw(t, "tty")}}
		kind := rapid.SampledFrom([]client.EventType{client.EventStdout, client.EventStderr}).Draw(t, "kind")
		data := rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		in := s.data(client.Event{Type: kind, Data: data})
		if rapid.Bool().Draw(t, "encoded") {
			in = s.data(client.Event{Type: kind, Encoded: base64.StdEncoding.AppendEncode([]byte{}, data)})
		}
		want := &process.ProcessEvent_DataEvent{Output: &process.ProcessEvent_DataEvent_Stdout{Stdout: data}}
		switch {
		case s.process.tty:
			want.Output = &process.ProcessEvent_DataEvent_Pty{Pty: data}
		case kind == client.EventStderr:
			want.Output = &process.ProcessEvent_DataEvent_Stderr{Stderr: data}
		}
		b, err := jsonCodec{}.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var out process.StartResponse
		if err := protojson.Unmarshal(b, &out); err != nil || !proto.Equal(want, out.GetEvent().GetData()) {
			t.Fatalf("%s is read as %v: %v", b, &out, err)
		}
		if err := (jsonCodec{}).Unmarshal(append([]byte(`{"unknown":1,`), b[1:]...), &out); err != nil {
			t.Fatal(err)
		}
		var joined process.ConnectResponse
		if b, err = (protoCodec{}).Marshal(in); err != nil {
			t.Fatal(err)
		}
		if err := (protoCodec{}).Unmarshal(b, &joined); err != nil || !proto.Equal(want, joined.GetEvent().GetData()) {
			t.Fatalf("%x is read as %v: %v", b, &joined, err)
		}
	})
	for _, c := range []interface{ Unmarshal([]byte, any) error }{jsonCodec{}, protoCodec{}} {
		if err := c.Unmarshal([]byte("{}"), "no message"); err == nil {
			t.Errorf("%T reads what is no message", c)
		}
	}
	if err := (jsonCodec{}).Unmarshal(nil, &process.StartRequest{}); err == nil {
		t.Error("nothing is a message")
	}
}
