package e2b

import (
	"context"
	"fmt"
	"sync"

	"connectrpc.com/connect"

	"github.com/space-platform/space/api/gen/e2b/process"
	api "github.com/space-platform/space/api/gen/http"
)

// maxProcesses bounds the processes that are remembered. Of one that isn't, the platform is asked.
const maxProcesses = 20_000

// runningProcess is a process of a sandbox, which is a session of the platform.
type runningProcess struct {
	session string
	tty     bool

	input  sync.Mutex // held by who sends input
	offset int64      // of the next byte of input; -1: not known
}

// processKey names a process as SDKs do.
type processKey struct {
	sandbox string
	pid     uint32
}

// processes are those that were started or found here. A pid is used again after a cold boot: a later process takes the place of an earlier one.
type processes struct {
	mu    sync.Mutex
	known map[processKey]*runningProcess
}

func (p *processes) add(k processKey, r *runningProcess) *runningProcess {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.known[k]; old != nil && old.session == r.session {
		return old
	}
	if p.known == nil || len(p.known) >= maxProcesses {
		p.known = map[processKey]*runningProcess{}
	}
	p.known[k] = r
	return r
}

func (p *processes) get(k processKey) *runningProcess {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[k]
}

// drop forgets a process that isn't there.
func (p *processes) drop(k processKey, r *runningProcess) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[k] == r {
		delete(p.known, k)
	}
}

// find returns the process that a selector means, with its pid.
func (f *Facade) find(ctx context.Context, g guest, s *process.ProcessSelector) (processKey, *runningProcess, error) {
	pid, ok := s.GetSelector().(*process.ProcessSelector_Pid)
	if !ok {
		return processKey{}, nil, connect.NewError(connect.CodeUnimplemented, fmt.Errorf("a process is selected by its pid here, not by a tag"))
	}
	k := processKey{g.sandbox, pid.Pid}
	if r := f.processes.get(k); r != nil {
		return k, r, nil
	}
	live, err := g.plane.LiveSessions(ctx)
	if err != nil {
		return k, nil, err
	}
	for _, s := range live {
		if s.State == api.LiveSessionStateRunning && s.Pid != nil && uint32(*s.Pid) == k.pid {
			return k, f.processes.add(k, &runningProcess{session: s.Id, tty: s.Tty, offset: -1}), nil
		}
	}
	return k, nil, noProcess(k.pid)
}

func noProcess(pid uint32) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("process with pid %d not found", pid))
}
