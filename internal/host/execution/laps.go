package execution

import (
	"log/slog"
	"time"
)

// laps measures the steps of a creation, or of a snapshot, for the log.
type laps struct {
	began time.Time
	last  time.Time
	steps []slog.Attr
}

func startLaps() *laps {
	now := time.Now()
	return &laps{began: now, last: now}
}

// lap ends a step.
func (l *laps) lap(step string) {
	now := time.Now()
	l.steps = append(l.steps, slog.Duration(step, now.Sub(l.last)))
	l.last = now
}

// attrs returns the steps and what they took together. Of none there's nothing to tell.
func (l *laps) attrs() slog.Attr { return l.named("took") }

// named is attrs, as a group of another name.
func (l *laps) named(group string) slog.Attr {
	if l == nil {
		return slog.Attr{}
	}
	return slog.GroupAttrs(group, append(l.steps, slog.Duration("all", l.last.Sub(l.began)))...)
}
