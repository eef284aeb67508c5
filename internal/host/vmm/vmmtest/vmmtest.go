// Package vmmtest is the conformance suite that every driver passes, the fake one too. It says in tests what the vmm package says in words.
//
// It expects nothing of a particular driver: what may differ is in the driver's Capabilities, from which the suite takes its patience too, and in the
// Fixture. It isn't a benchmark. Guests are reached as the host reaches them: by api/link, with spaced-guest at the other end.
package vmmtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/vmm"
)

// Fixture is what the suite needs to know of a driver.
type Fixture struct {
	Driver vmm.Driver
	Shape  vmm.Shape
	// Kernel and Initrd are what machines boot, SMP the kernel of those with more than one vCPU ("" for the same), Args more of the kernel's
	// arguments; empty for a driver that boots none.
	Kernel, SMP, Initrd string
	Args                []string
	// Tuned says that 'make kernel' built the kernels.
	Tuned bool
	// Disk is a raw image that each machine gets a copy of, empty for none. It holds /bin/sh and the usual small programs.
	Disk string
	// Virtual says that machines have a kernel, files and memory of their own, which a snapshot holds. A fake's don't.
	Virtual bool
	// Inside says that machines have no processes of their own, so that none can be killed from outside or found again. A fake's may.
	Inside bool
	// Enclosure makes a place for one machine, and removes it after the test.
	Enclosure func(t *testing.T) vmm.Enclosure
}

// Run runs the suite. When the base snapshot is there most checks run at the same time, as many as 'go test -parallel' says.
func Run(t *testing.T, f Fixture) {
	s := &suite{Fixture: f, dir: t.TempDir(), root: t, spare: new(atomic.Int32)}
	if f.Driver.Capabilities().CPUFactor > 1 {
		s.spare.Store(maxSilent)
	}
	for _, c := range checks {
		if f.has(c) && c.fatal && !t.Run(c.name, func(t *testing.T) { s.check(t, c) }) {
			return
		}
	}
	if s.base.manifest.MemoryBytes == 0 { // -test.run has left out the check that makes it
		checkSaveAndLoad(t, s)
	}
	for _, c := range checks {
		if f.has(c) && c.timed {
			t.Run(c.name, func(t *testing.T) { s.check(t, c) })
		}
	}
	t.Run("at the same time", func(t *testing.T) {
		for _, c := range checks {
			if f.has(c) && !c.fatal && !c.timed {
				t.Run(c.name, func(t *testing.T) { t.Parallel(); s.check(t, c) })
			}
		}
	})
}

// maxSilent is how many guests of a suite may stop answering where all are emulated: under QEMU's software emulation one of several hundred stands still for no reason
// that was found. The daemon takes another machine then, and so does the check. Where the processor runs the guest there is none to spare.
const maxSilent = 2

// silent is what a check ends with whose guest has stopped answering.
type silent struct{ machine string }

// giveUp ends the check for a guest that has stopped answering, if there's one to spare.
func (s *suite) giveUp(t *testing.T, g *guest, err error) {
	if !errors.Is(err, link.ErrNoAnswer) || t.Failed() || s.spare.Add(-1) < 0 {
		return
	}
	t.Logf("machine %s: %v; %s", g.e.ID, err, g.fate())
	panic(silent{g.e.ID})
}

// check runs one, and once more for each guest that has stopped answering and was to spare.
func (s *suite) check(t *testing.T, c check) {
	for {
		gone := s.attempt(t, c)
		if gone == nil {
			return
		}
		t.Logf("%s: its guest didn't answer: the check begins anew", gone.machine)
	}
}

func (s *suite) attempt(t *testing.T, c check) (gone *silent) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case silent:
			gone = &r
		default:
			panic(r)
		}
	}()
	c.run(t, s)
	return nil
}

// has tells whether the fixture has what a check asks for.
func (f Fixture) has(c check) bool {
	return (f.Virtual || !c.virtual) && (f.Tuned || !c.tuned) && !(f.Inside && c.process)
}

// check is one promise of the contract.
type check struct {
	name    string
	run     func(t *testing.T, s *suite)
	fatal   bool // the others can't be run without it
	timed   bool // measures times that other machines would change
	virtual bool // asks for what was in files and memory
	tuned   bool // asks for what only tuned kernels have
	process bool // treats the machine's process from outside
}

var checks = []check{
	{name: "boot reaches the guest", run: checkBoot, fatal: true},
	{name: "save makes a snapshot that loads", run: checkSaveAndLoad, fatal: true},
	{name: "pause and resume may be repeated", run: checkPauseResume},
	{name: "save needs a paused machine and leaves it paused", run: checkSavePaused},
	{name: "clones of one snapshot diverge", run: checkDiverge, virtual: true},
	{name: "clones may be loaded at the same time", run: checkTogether, virtual: true},
	{name: "a clone's snapshot has its changes", run: checkSaveClone, virtual: true},
	{name: "a machine is saved over what was saved before", run: checkSaveAgain, virtual: true},
	{name: "a machine is saved while it's busy", run: checkBusySave, virtual: true},
	{name: "saves leave nothing open in the machine's process", run: checkOpenFiles, process: true, virtual: true},
	{name: "a save that fails leaves the machine", run: checkFailedSave, virtual: true},
	{name: "a machine that ends while it's saved is gone", run: checkKilledSave, process: true, virtual: true},
	{name: "a flood on the link holds up no pause", run: checkFlood},
	{name: "machines share a sealed memory", run: checkSealed, virtual: true},
	{name: "memory comes page by page", run: checkPaged, virtual: true},
	{name: "a machine whose pages can't be had is ended", run: checkPagesLost, virtual: true},
	{name: "a machine has a memory of its own", run: checkOwnMemory, virtual: true},
	{name: "a busy machine keeps within its overhead", run: checkOverhead, process: true, virtual: true},
	{name: "clones draw different random numbers", run: checkEntropy},
	{name: "the clock is right after a load", run: checkClock},
	{name: "no process sees another machine's identity", run: checkIdentity, virtual: true},
	{name: "a machine has what is more than its template", run: checkLarger, virtual: true},
	{name: "the guest's kernel does files and terminals", run: checkGuestsKernel, virtual: true},
	{name: "a tuned kernel has what containers and tools need", run: checkTuned, virtual: true, tuned: true},
	{name: "a second dial ends the first", run: checkSecondDial},
	{name: "the peer is the machine's process", run: checkPeer, process: true},
	{name: "a machine is recovered after the daemon's end", run: checkRecover, process: true},
	{name: "a paused machine is recovered", run: checkRecoverPaused, process: true},
	{name: "another process is never recovered", run: checkRecoverOther, process: true},
	{name: "kill may be repeated", run: checkKill},
	{name: "a killed process is noticed within a second", run: checkDone, process: true, timed: true},
	{name: "calls on a dead machine say so", run: checkGone},
	{name: "a guest that stops ends its machine", run: checkGuestStops, virtual: true},
	{name: "calls may come from several goroutines", run: checkConcurrent},
	{name: "a stopped process holds up no call", run: checkStopped, process: true, timed: true},
	{name: "a snapshot that doesn't fit is refused", run: checkIncompatible},
	{name: "a start that fails leaves no process", run: checkFailedStart},
	{name: "an ended context starts nothing that stays", run: checkCancelledStart},
}

// suite is a run of the checks.
type suite struct {
	Fixture
	dir  string     // for what all checks share
	root *testing.T // the test of the whole suite
	base snapshot   // made by checkSaveAndLoad

	spare *atomic.Int32 // how many more guests may stop answering
}

// snapshot is a saved machine's files.
type snapshot struct {
	name                string // of the save
	state, memory, disk string
	manifest            vmm.Manifest
	saved               time.Time
}

// patience is how long a step may take that takes a second on a quiet machine without emulation, at most.
func (s *suite) patience() time.Duration {
	const base = 6 * time.Second
	return time.Duration(float64(base) * max(1, s.Driver.Capabilities().CPUFactor))
}

// within returns a context for one step.
func (s *suite) within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), s.patience())
	t.Cleanup(cancel)
	return ctx
}

// place makes an empty directory for a machine's files.
func (s *suite) place(t *testing.T) string {
	dir, err := os.MkdirTemp(s.dir, "machine-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// emptyMemory makes a memory file of the fixture's shape.
func (s *suite) emptyMemory(t *testing.T, dir string, uid int) string {
	path := filepath.Join(dir, "memory")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(s.Shape.MemoryBytes); err != nil {
		t.Fatal(err)
	}
	if err := f.Chown(uid, uid); err != nil {
		t.Fatal(err)
	}
	return path
}
