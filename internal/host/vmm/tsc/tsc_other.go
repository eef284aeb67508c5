//go:build !amd64

package tsc

const supported = false

func read() uint64 { return 0 }
