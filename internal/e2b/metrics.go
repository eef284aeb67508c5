package e2b

import "github.com/space-platform/space/internal/telemetry"

var (
	openStreams  = telemetry.NewGauge("space_sdk_streams", "Streams of E2B's SDKs that are open.", "kind")
	openWatchers = telemetry.NewGauge("space_sdk_watchers", "Watches that E2B's SDKs poll.")
)

// Kinds of streams.
const (
	streamProcess = "process"
	streamWatch   = "watch"
)

func init() {
	for _, kind := range []string{streamProcess, streamWatch} {
		openStreams.WithLabelValues(kind).Set(0)
	}
	openWatchers.WithLabelValues().Set(0)
}

// streaming counts a stream; what it returns is called at its end.
func streaming(kind string) (end func()) {
	g := openStreams.WithLabelValues(kind)
	g.Inc()
	return g.Dec
}
