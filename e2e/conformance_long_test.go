//go:build e2e && long

package e2e

import (
	"testing"
	"time"
)

// TestLongTheContractHoldsAgainstAFuzzer gives the schema fuzzer time to go further.
func TestLongTheContractHoldsAgainstAFuzzer(t *testing.T) { holdAgainstAFuzzer(t, 15*time.Minute) }
