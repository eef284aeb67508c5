package execution

import (
	"os"
	"path/filepath"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/proc"
)

// TestTheDriverOfTheMachinesThatRun is what a daemon asks for that begins again: machines that are gone, and executions without one, don't count.
func TestTheDriverOfTheMachinesThatRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "executions")
	here, err := proc.Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	handle := func(driver string, late uint64) *vmm.Handle {
		return &vmm.Handle{Driver: driver, PID: here.PID, StartTime: here.StartTime + late, BootID: here.BootID}
	}
	want := func(driver string) {
		t.Helper()
		if got, err := RunningDriver(dir); err != nil || got != driver {
			t.Errorf("it's %q, %v, want %q", got, err, driver)
		}
	}
	want("")
	for _, r := range []record{
		{State: space.ExecutionStopped}, {State: space.ExecutionRunning, Machine: handle("gone", 1)}, {State: space.ExecutionPaused, Machine: handle("qemu", 0)},
	} {
		r.Route = order().Route
		home := filepath.Join(dir, space.HostLabel(r.Route.Execution))
		if err := os.MkdirAll(home, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := durable.WriteJSON(filepath.Join(home, recordName), r, 0o600); err != nil {
			t.Fatal(err)
		}
		if r.State == space.ExecutionRunning {
			want("")
		}
	}
	want("qemu")
}
