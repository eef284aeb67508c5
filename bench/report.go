package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// report is build/bench.json.
type report struct {
	Machine string   `json:"machine"`
	Commit  string   `json:"commit"`
	Results []result `json:"results"`
}

// result is one figure. Ratio and OverBare are there when the same was done by hand in the same run.
type result struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	N        int      `json:"n"`
	P50      float64  `json:"p50"`
	P90      float64  `json:"p90"`
	P99      float64  `json:"p99"`
	Ratio    *float64 `json:"ratio,omitempty"`
	OverBare *float64 `json:"over_bare,omitempty"`
	// PerS is how many were done in a second when all were asked for at once, PerSRatio that in relation to bare.
	PerS      *float64 `json:"per_s,omitempty"`
	PerSRatio *float64 `json:"per_s_ratio,omitempty"`
	// Goal is what is aimed at, of PerS where that's there and of P50 else, and ToGoal how far it's reached: 1 or more is met.
	Goal    *float64  `json:"goal,omitempty"`
	ToGoal  *float64  `json:"to_goal,omitempty"`
	Samples []float64 `json:"samples,omitempty"`
}

// rate makes a figure of how many there were in a second.
func rate(name string, perS, goal float64) result {
	v, ratio := round(perS), round(perS/goal)
	return result{Name: name, Unit: "1/s", N: 1, P50: v, P90: v, P99: v, PerS: &v, Goal: &goal, ToGoal: &ratio}
}

// below adds a goal for the median, in the figure's unit.
func (r result) below(goal float64) result {
	ratio := round(goal / r.P50)
	r.Goal, r.ToGoal = &goal, &ratio
	return r
}

// compare makes a figure of our samples and the bare ones of the same run.
func compare(name string, ours, bare []float64) result {
	r := result{Name: name, Unit: "ms", N: len(ours), P50: percentile(ours, 50), P90: percentile(ours, 90), P99: percentile(ours, 99), Samples: ours}
	if len(bare) > 0 {
		b := percentile(bare, 50)
		ratio, over := round(r.P50/b), round(r.P50-b)
		r.Ratio, r.OverBare = &ratio, &over
	}
	return r
}

// perSecond says how many of n there were in a second, ours and in relation to bare.
func (r *result) perSecond(n int, oursMS, bareMS float64) {
	ours, ratio := round(float64(n)/oursMS*1000), round(bareMS/oursMS)
	r.PerS, r.PerSRatio = &ours, &ratio
}

// percentile is the nearest-rank percentile: a sample that was measured, never one between two.
func percentile(samples []float64, p float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(samples))
	return s[max(0, int(math.Ceil(p/100*float64(len(s))))-1)]
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }

func write(path string, r report) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

func show(r report) {
	fmt.Printf("%s · %s\n%-26s %4s %9s %9s %9s %7s %9s %7s %7s %7s %7s\n", r.Machine, r.Commit, "figure", "n", "p50", "p90", "p99", "ratio", "over bare", "per s", "ratio", "goal", "reached")
	for _, x := range r.Results {
		fmt.Printf("%-26s %4d %9.1f %9.1f %9.1f %7s %9s %7s %7s %7s %7s\n", x.Name, x.N, x.P50, x.P90, x.P99,
			optional(x.Ratio), optional(x.OverBare), optional(x.PerS), optional(x.PerSRatio), optional(x.Goal), optional(x.ToGoal))
	}
}

func optional(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f", *v)
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// machine names what was measured on, as far as it decides the figures.
func machine() string {
	model := "unknown CPU"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.TrimLeft(strings.TrimSpace(v), ": ")
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%s, %d CPUs, Linux %s, software emulation", model, runtime.NumCPU(), strings.TrimSpace(string(kernel)))
}
