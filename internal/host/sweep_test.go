package host

import (
	"os"
	"path/filepath"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/uids"
	"github.com/space-platform/space/internal/instance/instancetest"
)

// TestUIDsOfExecutionsAreKept: builds begin before the executions are read, and mustn't get the uid of a machine that runs.
func TestUIDsOfExecutionsAreKept(t *testing.T) {
	i := instancetest.Own(t)
	j, err := jail.New(i)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	first, _ := i.VMUIDs()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "one"), 0o700); err != nil {
		t.Fatal(err)
	}
	record := map[string]any{"uid": first, "route": space.Route{
		Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: 1,
		Placement: space.Placement{Kind: space.PlacementNode, Node: "n"},
	}}
	if err := durable.WriteJSON(filepath.Join(dir, "one", "record.json"), record, 0o600); err != nil {
		t.Fatal(err)
	}
	pool := uids.New(first, first)
	if err := (&Host{jail: j}).sweep(t.Context(), dir, pool); err != nil {
		t.Fatal(err)
	}
	if uid, err := pool.Take(); err == nil {
		t.Errorf("uid %d is handed out while an execution has it", uid)
	}
}
