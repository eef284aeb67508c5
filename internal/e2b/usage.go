package e2b

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

// metric is what a sandbox uses, at one time.
type metric struct {
	Timestamp     time.Time `json:"timestamp"`
	TimestampUnix int64     `json:"timestampUnix"`
	CPUCount      int       `json:"cpuCount"`
	CPUUsedPct    float64   `json:"cpuUsedPct"`
	MemUsed       int64     `json:"memUsed"`
	MemTotal      int64     `json:"memTotal"`
	MemCache      int64     `json:"memCache"`
	DiskUsed      int64     `json:"diskUsed"`
	DiskTotal     int64     `json:"diskTotal"`
}

// getMetrics answers with the newest figures, which are all that the platform keeps; with none while there are none.
func (f *Facade) getMetrics(w http.ResponseWriter, r *request) error {
	s, err := r.living(r.Context())
	if err != nil {
		return notFoundWhileKilled(err, r)
	}
	out := []metric{}
	m, err := r.platform.Metrics(r.Context(), s.Id)
	switch {
	case is(err, space.CodeConflict, space.CodeUnavailable):
	case err != nil:
		return err
	case m.Guest != nil && within(m.At, r.URL.Query()):
		out = append(out, renderMetric(s, m))
	}
	answer(w, http.StatusOK, out)
	return nil
}

func renderMetric(s client.Sandbox, m client.Metrics) metric {
	out := metric{
		Timestamp: m.At, TimestampUnix: m.At.Unix(), CPUCount: s.Vcpus, MemUsed: m.Guest.MemoryUsedBytes, MemTotal: m.Guest.MemoryTotalBytes,
		DiskUsed: m.Guest.DiskUsedBytes, DiskTotal: m.Guest.DiskTotalBytes,
	}
	if m.CpuPercent != nil && s.Vcpus > 0 {
		out.CPUUsedPct = *m.CpuPercent / float64(s.Vcpus)
	}
	return out
}

// within tells whether a time is between start and end, in seconds since 1970, as far as they're given.
func within(at time.Time, q url.Values) bool {
	start, errStart := strconv.ParseInt(q.Get("start"), 10, 64)
	end, errEnd := strconv.ParseInt(q.Get("end"), 10, 64)
	return (errStart != nil || at.Unix() >= start) && (errEnd != nil || at.Unix() <= end)
}
