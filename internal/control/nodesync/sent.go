package nodesync

import "time"

const (
	// maxOrders bounds an answer; the rest comes with the next.
	maxOrders = 256
	// maxBuilds bounds the templates in an answer that are to be built: what they're made of may be large.
	maxBuilds = 4
	// repeatUnheard is after how long an order is given again that the node doesn't seem to have heard: the answer may have been lost.
	repeatUnheard = 100 * time.Millisecond
	// repeatHeard is the same for an order that the node is at work on: it may have been restarted.
	repeatHeard = 2 * time.Second
)

// sent remembers when each order that still stands was given last, so that a node that is at work isn't told the same in a tight loop.
type sent map[Order]time.Time

// due returns the orders of a plan that are new or may have been lost, and how long until another one is. What the plan no longer
// orders is forgotten.
func (s sent) due(p Plan, now time.Time) (due []Order, again time.Duration) {
	for o := range s {
		if _, stands := p.Repeats[o]; !stands {
			delete(s, o)
		}
	}
	again = pollEvery
	builds := 0
	for _, o := range p.Orders {
		wait := s.wait(o, p.Repeats[o], now)
		switch {
		case wait > 0:
			again = min(again, wait)
		case len(due) == maxOrders || o.Kind == EnsureTemplate && builds == maxBuilds:
			// It comes with the next answer.
		default:
			due = append(due, o)
			if o.Kind == EnsureTemplate {
				builds++
			}
		}
	}
	return due, again
}

func (s sent) wait(o Order, heard bool, now time.Time) time.Duration {
	at, given := s[o]
	switch {
	case !given:
		return 0
	case heard:
		return repeatHeard - now.Sub(at)
	default:
		return repeatUnheard - now.Sub(at)
	}
}

func (s sent) mark(orders []Order, now time.Time) {
	for _, o := range orders {
		s[o] = now
	}
}
