package service

import "time"

const (
	// watchGap is how far messages of Watch are apart while changes come one upon the other. Each message is the whole status, so what a change costs grows with how
	// much there is.
	watchGap = 10 * time.Millisecond
	// watchFree is how many messages in a row may be nearer to each other: what happens to one sandbox is told at once.
	watchFree = 4
)

// pace keeps messages apart.
type pace struct {
	last time.Time
	near int // how many weren't apart since there was a rest
}

// sent notes that a message is sent.
func (p *pace) sent(now time.Time) {
	switch d := now.Sub(p.last); {
	case d < watchGap:
		p.near++
	case d >= 2*watchGap: // what was kept apart is no rest
		p.near = 0
	}
	p.last = now
}

// wait is how long the next one waits.
func (p *pace) wait(now time.Time) time.Duration {
	if p.near < watchFree {
		return 0
	}
	return p.last.Add(watchGap).Sub(now)
}
