// Package tsc measures how fast the processor's time stamp counter runs. Guests get the figure on their command line, since calibrating
// it against an emulated timer fails at random on a busy host; and a snapshot keeps it, so a host with another one would turn its clock wrongly.
package tsc

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// window is how long a measurement takes. An error of a microsecond in reading the clock is then 20 parts in a million.
const window = 50 * time.Millisecond

// attempts is how often each end is read: the tightest bracket counts, so that being descheduled in the middle does no harm.
const attempts = 20

// KHz measures the counter against the raw monotonic clock. It takes 50 ms.
func KHz() (int64, error) {
	if !supported {
		return 0, fmt.Errorf("measure the time stamp counter: this processor has none")
	}
	c0, t0 := sample()
	time.Sleep(window)
	c1, t1 := sample()
	return khz(c1-c0, t1-t0)
}

func khz(cycles uint64, nanos int64) (int64, error) {
	const slowest, fastest = 100_000, 100_000_000 // kHz
	if nanos <= 0 {
		return 0, fmt.Errorf("measure the time stamp counter: the clock went from one reading to the next by %d ns", nanos)
	}
	k := int64(float64(cycles) / float64(nanos) * 1e6)
	if k < slowest || k > fastest {
		return 0, fmt.Errorf("measure the time stamp counter: %d kHz is beyond belief", k)
	}
	return k, nil
}

// sample reads counter and clock at the same moment, as nearly as it can.
func sample() (cycles uint64, nanos int64) {
	best := uint64(1<<64 - 1)
	for range attempts {
		before := read()
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &ts); err != nil {
			return 0, 0 // no such clock: khz refuses the difference
		}
		after := read()
		if after-before < best {
			best, cycles, nanos = after-before, before+(after-before)/2, ts.Nano()
		}
	}
	return cycles, nanos
}
