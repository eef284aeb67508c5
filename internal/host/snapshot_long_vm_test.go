//go:build vm && long

package host_test

import "testing"

// TestLongSuspends suspends and restores one sandbox fifty times, each time by another daemon.
func TestLongSuspends(t *testing.T) {
	tell(t, story{"fifty times", func(t *testing.T, r *rig, mini string) { suspendRounds(t, r, mini, 50) }})
}
