package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/space-platform/space/internal/proc"
)

// killGrace is how long a killed process may take to be gone; longer takes one in an uninterruptible wait.
const killGrace = 10 * time.Second

// process is one that runs under a uid of interest.
type process struct {
	id  proc.ID
	uid int
}

// processes returns those whose uid is one of first to last.
func processes(first, last int) ([]process, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := look(pid)
		if errors.Is(err, proc.ErrGone) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		if p.uid >= first && p.uid <= last {
			out = append(out, p)
		}
	}
	return out, nil
}

func look(pid int) (process, error) {
	uid, err := proc.UID(pid)
	if err != nil {
		return process{}, err
	}
	id, err := proc.Read(pid)
	return process{id: id, uid: uid}, err
}

// EndUID ends every process of a uid. None can come after: only a starter could start one.
func EndUID(ctx context.Context, uid int) error {
	found, err := processes(uid, uid)
	if err != nil {
		return err
	}
	for _, p := range found {
		if err := proc.End(ctx, p.id, killGrace); err != nil {
			return err
		}
	}
	return nil
}
