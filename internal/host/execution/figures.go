package execution

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/telemetry"
)

var (
	stepDuration = telemetry.NewDurations("space_host_execution_step_duration_seconds", "Steps of the creation of executions; step all is the whole.", "step")
	handshakes   = telemetry.NewCounter("space_host_link_handshakes_total", "Handshakes with guests, by how they ended: ok or failed.", "result")
	claims       = telemetry.NewCounter("space_host_pool_claims_total", "Creations that could have used a machine of the pool: hit if one waited, miss if none did.", "result")
	pooled       = prometheus.NewDesc("space_host_pool_slots", "Machines of the pool, which belong to nobody, by what they are at: making, waiting, removing.", []string{"state"}, nil)
	executions   = prometheus.NewDesc("space_host_executions", "Executions that the node has on file.", []string{"state"}, nil)
)

// observe records the steps of a creation that worked.
func (l *laps) observe() {
	for _, s := range l.steps {
		stepDuration.WithLabelValues(s.Key).Observe(s.Value.Duration().Seconds())
	}
	stepDuration.WithLabelValues("all").Observe(time.Since(l.began).Seconds())
}

// shaken counts a handshake.
func shaken(err error) {
	if err != nil {
		handshakes.WithLabelValues("failed").Inc()
		return
	}
	handshakes.WithLabelValues("ok").Inc()
}

// Figures returns the metrics of a table: how many executions are in which state, and how many machines wait.
func (t *Table) Figures() prometheus.Collector { return figures{t} }

type figures struct{ table *Table }

// Describe implements prometheus.Collector.
func (figures) Describe(to chan<- *prometheus.Desc) {
	to <- executions
	to <- pooled
}

// Collect implements prometheus.Collector.
func (f figures) Collect(to chan<- prometheus.Metric) {
	count := map[space.ExecutionState]int{}
	for _, s := range space.ExecutionStates() {
		count[s] = 0
	}
	for _, r := range f.table.Reports() {
		count[r.State]++
	}
	for state, n := range count {
		to <- prometheus.MustNewConstMetric(executions, prometheus.GaugeValue, float64(n), string(state))
	}
	for state, n := range f.table.pool.counts() {
		to <- prometheus.MustNewConstMetric(pooled, prometheus.GaugeValue, float64(n), state)
	}
}
