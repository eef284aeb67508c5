package setup

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/proc"
)

// killGrace is how long a killed process may take to be gone.
const killGrace = 10 * time.Second

// Machines counts the virtual machines of an instance that run now: each has a uid of its own.
func Machines(i instance.Instance) (int, error) {
	uids := map[int]bool{}
	err := eachMachineProcess(i, func(_ proc.ID, uid int) error {
		uids[uid] = true
		return nil
	})
	return len(uids), err
}

// EndMachines kills every process in the instance's uid range for machines. What was in their memory is lost.
func EndMachines(ctx context.Context, i instance.Instance) error {
	return eachMachineProcess(i, func(id proc.ID, _ int) error { return proc.End(ctx, id, killGrace) })
}

func eachMachineProcess(i instance.Instance, do func(id proc.ID, uid int) error) error {
	first, last := i.VMUIDs()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		uid, err := proc.UID(pid)
		if err != nil || uid < first || uid > last {
			continue // it ended meanwhile, or it's somebody else's
		}
		id, err := proc.Read(pid)
		if err != nil {
			continue
		}
		if err := do(id, uid); err != nil {
			return fmt.Errorf("machine process %d: %w", pid, err)
		}
	}
	return nil
}
