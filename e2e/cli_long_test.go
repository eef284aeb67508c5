//go:build e2e && long

package e2e

import (
	"testing"
	"time"
)

// TestLongGigabyteThroughTheCommandLine is TestSlowReaderGetsAll with 1 GiB.
func TestLongGigabyteThroughTheCommandLine(t *testing.T) { streamTo(t, 1<<30, time.Hour) }
