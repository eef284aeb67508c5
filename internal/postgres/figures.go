package postgres

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	poolConnections = prometheus.NewDesc("space_db_pool_connections", "Connections to the database: idle, used, or opening; max is the limit of them all.", []string{"state"}, nil)
	poolAcquires    = prometheus.NewDesc("space_db_pool_acquires_total", "Connections taken from the pool.", nil, nil)
	poolCanceled    = prometheus.NewDesc("space_db_pool_canceled_acquires_total", "Waits for a connection that were given up.", nil, nil)
	poolWait        = prometheus.NewDesc("space_db_pool_wait_seconds_total", "Time spent waiting for a connection.", nil, nil)
)

// Figures returns the metrics of a pool.
func Figures(pool *pgxpool.Pool) prometheus.Collector { return figures{pool} }

type figures struct{ pool *pgxpool.Pool }

// Describe implements prometheus.Collector.
func (figures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolConnections, poolAcquires, poolCanceled, poolWait} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (f figures) Collect(to chan<- prometheus.Metric) {
	s := f.pool.Stat()
	for state, n := range map[string]int32{"idle": s.IdleConns(), "used": s.AcquiredConns(), "opening": s.ConstructingConns(), "max": s.MaxConns()} {
		to <- prometheus.MustNewConstMetric(poolConnections, prometheus.GaugeValue, float64(n), state)
	}
	to <- prometheus.MustNewConstMetric(poolAcquires, prometheus.CounterValue, float64(s.AcquireCount()))
	to <- prometheus.MustNewConstMetric(poolCanceled, prometheus.CounterValue, float64(s.CanceledAcquireCount()))
	to <- prometheus.MustNewConstMetric(poolWait, prometheus.CounterValue, s.AcquireDuration().Seconds())
}
