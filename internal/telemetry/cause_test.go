package telemetry_test

import (
	"strings"
	"testing"

	"github.com/space-platform/space/internal/telemetry"
)

func TestCauseGoesThroughAContext(t *testing.T) {
	want := telemetry.Cause{Request: "req_1", Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	if got := telemetry.CauseOf(want.In(t.Context())); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := telemetry.CauseOf(t.Context()); got != (telemetry.Cause{}) {
		t.Errorf("a context that belongs to nothing has the cause %+v", got)
	}
}

// TestCauseOffTheWire: what isn't a request's id or a span is none, so that nobody writes lines into a log.
func TestCauseOffTheWire(t *testing.T) {
	for _, c := range []telemetry.Cause{{Request: "a b"}, {Request: "a\nb"}, {Request: strings.Repeat("a", 65)}, {Traceparent: "00-zz"}, {Traceparent: "x\n"}} {
		if got := telemetry.CauseOf(c.In(t.Context())); got != (telemetry.Cause{}) {
			t.Errorf("%q came of %q", got, c)
		}
	}
}
