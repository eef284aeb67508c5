package execution

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/promise"
)

// promise gives a machine with so much memory that memory, and what its VMM takes beside it; a *space.Error says why that can't be.
func (e *execution) promise(memory int64) (takeBack func(), err error) {
	takeBack, err = e.cfg.Promises.Promise(memory + e.cfg.Overhead)
	if err != nil {
		return func() {}, err
	}
	return takeBack, nil
}

// recall promises the machine again what an earlier life has.
func (e *execution) recall() {
	if !e.rec.promised() {
		return
	}
	e.takeBack = e.cfg.Promises.Keep(e.rec.Size.MemoryBytes + e.cfg.Overhead)
	e.unshare = e.cfg.Promises.Hold(e.rec.Shared)
}

// unpromise takes the memory back. The machine is gone.
func (e *execution) unpromise() {
	e.takeBack()
	e.unshare()
}

// promised tells whether the record is of an execution whose machine may be there.
func (r record) promised() bool {
	return r.Machine != nil || r.State == space.ExecutionRunning || r.State == space.ExecutionPaused
}

// Recall promises the machines of the executions on file in dir what an earlier life has promised them, until the table that is opened with them does. overhead is Config.Overhead.
func Recall(dir string, promises *promise.Ledger, overhead int64) (done func(), err error) {
	records, err := readRecords(dir)
	if err != nil {
		return nil, err
	}
	var all []func()
	for _, r := range records {
		if r.promised() {
			all = append(all, promises.Keep(r.Size.MemoryBytes+overhead), promises.Hold(r.Shared))
		}
	}
	return func() {
		for _, takeBack := range all {
			takeBack()
		}
	}, nil
}
