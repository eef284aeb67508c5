package doctor

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// clockSlack is how far files may be ahead of the clock: they may have come from elsewhere.
	clockSlack = 10 * time.Minute
	staUnsync  = 0x0040 // STA_UNSYNC of linux/timex.h
)

// clockFacts are what can be known about a clock without asking another.
type clockFacts struct {
	now     time.Time
	newest  time.Time // of files that were written before now, whatever the clock says
	synced  bool
	running bool // the monotonic clock moves
}

func lookClock(context.Context, Options) verdict {
	f := clockFacts{now: time.Now(), newest: newestOf("/var/lib/dpkg/status", "/proc/self/exe", "/etc/ld.so.cache", "/var/log/lastlog")}
	var t unix.Timex
	_, err := unix.Adjtimex(&t)
	f.synced = err == nil && t.Status&staUnsync == 0
	f.running = monotonicMoves()
	return judgeClock(f)
}

func newestOf(paths ...string) time.Time {
	var newest time.Time
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	return newest
}

// monotonicMoves reads the clock that timeouts depend on until it has moved; a thousand readings take a few microseconds at least.
func monotonicMoves() bool {
	began := time.Now()
	for range 1000 {
		if time.Since(began) > 0 {
			return true
		}
	}
	return false
}

func judgeClock(f clockFacts) verdict {
	detail := f.now.UTC().Format(time.RFC3339)
	const syncClock = "apt-get install -y systemd-timesyncd || apt-get install -y chrony"
	switch {
	case !f.running:
		return verdict{Fail, detail, "the monotonic clock stands still: no deadline would ever be met", "dmesg | grep -i clocksource"}
	case f.now.Add(clockSlack).Before(f.newest):
		return verdict{Warn, detail + ", and files on this machine are from " + f.newest.UTC().Format(time.RFC3339), "the clock is behind: certificates and tokens of others will be refused, and sandboxes get the wrong time", syncClock}
	case !f.synced:
		return verdict{Warn, detail + ", not synchronised", "the clock may drift; sandboxes get their time from it", syncClock}
	default:
		return fine(detail + ", synchronised")
	}
}
