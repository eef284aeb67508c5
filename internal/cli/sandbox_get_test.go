package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// TestDescribeRolling: who asks for a sandbox sees how it takes snapshots of itself, and what stays of them.
func TestDescribeRolling(t *testing.T) {
	every, budget := 600, int64(500)
	keep := []gen.Tier{{ForSeconds: 3600}, {EverySeconds: 3600, ForSeconds: 86400}}
	s := client.Sandbox{
		Execution: gen.Execution{Id: "exe_1", Epoch: 2, Node: "here"},
		Lifecycle: &client.Lifecycle{Rolling: &client.Rolling{FullEverySeconds: &every, Keep: &keep, BudgetMb: &budget}},
	}
	var out strings.Builder
	if err := describe(&out, s); err != nil {
		t.Fatal(err)
	}
	want := `execution:      exe_1, epoch 2, on node here
snapshots:      full, every 10m0s
keeps:          all of the last 1h0m0s
keeps:          one for each 1h0m0s of the last 24h0m0s
at most:        500 MiB of them
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestAConflictNamesWhatToWaitFor, if that's an operation.
func TestAConflictNamesWhatToWaitFor(t *testing.T) {
	for operation, want := range map[string]string{"op_1": "'space operation get op_1 --wait 5m' waits for it; then try again", "": ""} {
		if got := hintFor(&client.Error{Code: "conflict", Operation: operation}); got != want {
			t.Errorf("the hint is %q, want %q", got, want)
		}
	}
}
