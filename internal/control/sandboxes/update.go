package sandboxes

import (
	"context"
	"time"

	"github.com/space-platform/space/internal/control/lifecycle"
	"github.com/space-platform/space/internal/control/program"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// Update is what a client changes of a sandbox; what is nil stays.
type Update struct {
	Metadata map[string]string
	Env      map[string]string // of sessions that are created from now on
	Lifetime *Lifetime
	Forever  bool // the lifetime is removed

	Lifecycle *lifecycle.Config
}

// Update changes a sandbox's metadata, environment or lifetime, in whatever state it is, and returns it. Conflict if it's deleted.
func (s *Sandboxes) Update(ctx context.Context, project, id string, u Update) (record.Sandbox, error) {
	if err := checkID(id); err != nil {
		return record.Sandbox{}, err
	}
	if err := u.check(); err != nil {
		return record.Sandbox{}, err
	}
	lifetime, err := u.Lifetime.at(time.Now())
	if err != nil {
		return record.Sandbox{}, err
	}
	change, err := u.Lifecycle.Change()
	if err != nil {
		return record.Sandbox{}, err
	}
	if err := s.store.UpdateSandbox(ctx, project, id, record.Update{Metadata: u.Metadata, Env: u.Env, Lifetime: lifetime, Forever: u.Forever, Change: change}); err != nil {
		return record.Sandbox{}, err
	}
	s.bell.Ring(id, wake.Deadlines)
	return s.store.Sandbox(ctx, project, id)
}

func (u Update) check() error {
	if err := checkMetadata(u.Metadata); err != nil {
		return err
	}
	return program.CheckEnv("env", u.Env)
}
