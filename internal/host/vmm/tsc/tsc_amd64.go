package tsc

const supported = true

// read returns the counter.
func read() uint64
