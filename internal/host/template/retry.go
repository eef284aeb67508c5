package template

import (
	"fmt"
	"time"

	space "github.com/space-platform/space"
)

// The tries to make a template anew that was ready before. That it can't be is the node's fault, and a failure is final for the control plane: it's told only when
// there's no hope. Room comes back some day, so for want of it any number of tries is made.
const (
	firstRetry = 10 * time.Second // pause before the second try; each further one is twice as long
	maxRetry   = 5 * time.Minute
	maxBroken  = 5 // tries that may fail for another reason
)

// pauseBefore is how long the next try waits after so many failures.
func (c Config) pauseBefore(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	wait := c.retryPause
	if wait == 0 {
		wait = firstRetry
	}
	for range failures - 1 {
		if wait *= 2; wait >= maxRetry {
			return maxRetry
		}
	}
	return wait
}

// mayRetry tells whether another try is made after one that failed, and counts it. mu is held.
func (e *entry) mayRetry(why *space.Error) bool {
	e.failures++
	if why.Code != space.CodeCapacity && why.Code != space.CodeUnavailable {
		e.broken++
	}
	return e.broken < maxBroken
}

// retry begins another try after one that failed. Only the first failure is in the build's log. mu is held.
func (s *Store) retry(e *entry, why *space.Error, where error) {
	text := fmt.Sprintf("it could not be made anew, and is tried again in %s: %s", s.cfg.pauseBefore(e.failures), why.Message)
	if e.failures == 1 {
		e.log.add(stepOf(where), text)
	}
	tellFailure("a template could not be made anew; it's tried again", e.Template, why, where)
	s.renew(e)
	e.Progress = text[:min(len(text), maxProgress)]
}
