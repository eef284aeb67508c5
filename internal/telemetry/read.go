package telemetry

import (
	"fmt"
	"io"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Sum adds up what a gauge or a counter has in Prometheus's text format, over the series that have these labels among theirs; without any,
// over all. It's 0 if there are none.
func Sum(text io.Reader, metric string, labels map[string]string) (total float64, err error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(text)
	if err != nil {
		return 0, fmt.Errorf("read metric %s: %w", metric, err)
	}
	for _, m := range families[metric].GetMetric() {
		if has(m, labels) {
			total += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return total, nil
}

func has(m *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, l := range m.GetLabel() {
		if value, ok := labels[l.GetName()]; ok && value == l.GetValue() {
			found++
		}
	}
	return found == len(labels)
}
