package telemetry

import (
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes bounds how many read a process's metrics at once.
const maxScrapes = 4

// registry holds the process's metrics.
var registry = newRegistry()

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// buckets are the bounds of durations, in seconds: from a call within the machine to a request that waits for an operation.
var buckets = []float64{0.001, 0.005, 0.025, 0.1, 0.25, 1, 2.5, 10, 60, 300}

var buildInfo = NewGauge("space_build_info", "The build that the process runs: always 1.", "version", "role", "go_version")

// Build says what the process is.
func Build(version, role string) { buildInfo.WithLabelValues(version, role, runtime.Version()).Set(1) }

// NewCounter makes a counter of the process. The values of its labels must be bounded.
func NewCounter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	Register(c)
	return c
}

// NewGauge makes a gauge of the process. The values of its labels must be bounded.
func NewGauge(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	Register(g)
	return g
}

// NewDurations makes a histogram of durations in seconds. The values of its labels must be bounded.
func NewDurations(name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	Register(h)
	return h
}

// Register adds what is collected when somebody reads the metrics. Two of one name are a mistake of the program: it panics.
func Register(c prometheus.Collector) { registry.MustRegister(c) }

// Describe tells what metrics the process has, those without a value yet too.
func Describe(to chan<- *prometheus.Desc) { registry.Describe(to) }

// metricsHandler serves the metrics in Prometheus's text format.
func metricsHandler() http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: opsTimeout})
}
