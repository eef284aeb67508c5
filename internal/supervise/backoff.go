package supervise

import "time"

const (
	backoffFirst = 200 * time.Millisecond // before the first restart
	backoffMost  = 30 * time.Second       // between restarts, however often
	backoffReset = 30 * time.Second       // a life this long was a healthy one: its end starts over
)

// backoff is how long to wait before the next start, given the wait before this one (0: none) and how long the process lived.
func backoff(last, lived time.Duration) time.Duration {
	if last == 0 || lived >= backoffReset {
		return backoffFirst
	}
	return min(2*last, backoffMost)
}
