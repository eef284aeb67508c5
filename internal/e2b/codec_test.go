package e2b

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/space-platform/space/api/gen/e2b/process"
	"github.com/space-platform/space/client"
)

// TestCodecIsJSON: what takes the short way is what the long one writes.
func TestCodecIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := stream{process: &runningProcess{tty: rapid.Bool().Draw(t, "tty")}}
		kind := rapid.SampledFrom([]client.EventType{client.EventStdout, client.EventStderr}).Draw(t, "kind")
		in := &process.StartResponse{Event: s.data(client.Event{Type: kind, Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data")})}
		b, err := jsonCodec{}.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var out process.StartResponse
		if err := protojson.Unmarshal(b, &out); err != nil || !proto.Equal(in, &out) {
			t.Fatalf("%s is read as %v: %v", b, &out, err)
		}
		if err := (jsonCodec{}).Unmarshal(append([]byte(`{"unknown":1,`), b[1:]...), &out); err != nil {
			t.Fatal(err)
		}
	})
	if err := (jsonCodec{}).Unmarshal(nil, &process.StartRequest{}); err == nil {
		t.Error("nothing is a message")
	}
}
