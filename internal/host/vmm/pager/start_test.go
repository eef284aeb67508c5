package pager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/pages"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
	"github.com/space-platform/space/internal/proc"
)

// started is a pager in a process of its own, which is this test's program.
func started(t *testing.T, memory, set string) (*Pager, vmm.Enclosure) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	boot, err := proc.BootID()
	if err != nil {
		t.Fatal(err)
	}
	e := vmmtest.Enclosure(t)
	e.UID = os.Getuid()
	p, err := Start(t.Context(), e, boot, Order{Program: self, Memory: memory, WorkingSet: set, Snapshot: "a"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill(context.Background()); p.Close() })
	return p, e
}

// over waits for a pager's end.
func over(t *testing.T, p *Pager) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the pager goes on")
	}
}

// gone is closed already.
func gone() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestAPagerIsAProcessOfItsOwn(t *testing.T) {
	f, content := memoryFile(t)
	p, e := started(t, f.Name(), "")
	if _, err := p.Regions(); err == nil {
		t.Error("the regions are known before they were said")
	}
	v := startVictim(t, p.Socket(), testSizes)
	v.expect("up")
	if got := v.ask("sum 8"); got != sumOf(content) {
		t.Errorf("the memory's digest is %s, want %s", got, sumOf(content))
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Handle().PID))
	if err != nil || !strings.Contains(string(status), "\nSeccomp:\t2\n") || !strings.Contains(string(status), "\nNoNewPrivs:\t1\n") {
		t.Errorf("it isn't confined: %s, %v", status, err)
	}
	regions, err := p.Regions()
	if err != nil || len(regions) != 2 || regions[1].Offset != 1001*pageBytes {
		t.Errorf("the regions are %+v, %v", regions, err)
	}
	again, err := Find(e, p.Handle())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	v.kill()
	over(t, p)
	over(t, again)
	for _, x := range []*Pager{p, again} {
		if err := x.Why(gone()); err != nil {
			t.Errorf("when its machine has ended: %v", err)
		}
	}
	if _, err := Find(e, p.Handle()); !errors.Is(err, vmm.ErrGone) {
		t.Errorf("a pager that is gone is found: %v", err)
	}
}

// What a machine has is saved with the pages that it never asked for.
func TestWhatHasComeIsCopiedOverTheFile(t *testing.T) {
	f, content := memoryFile(t)
	p, _ := started(t, f.Name(), "")
	v := startVictim(t, p.Socket(), testSizes)
	v.expect("up")
	for _, page := range []int{0, 5, 1000, 1001, 1700} {
		v.ask("write %d 33", page)
		content[page*pageBytes] = 33
	}
	regions, err := p.Regions()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := vmmtest.Clone(f.Name(), copied, os.Getuid()); err != nil {
		t.Fatal(err)
	}
	to, err := os.OpenFile(copied, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := pages.CopyPresent(t.Context(), v.cmd.Process.Pid, regions, to); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(copied); err != nil || sumOf(got) != sumOf(content) {
		t.Errorf("the copy's digest is %s, %v, want %s", sumOf(got), err, sumOf(content))
	}
}

func TestAPagerThatFailsSaysWhy(t *testing.T) {
	t.Run("a file that was cut off", func(t *testing.T) {
		f, _ := memoryFile(t)
		p, e := started(t, f.Name(), "")
		v := startVictim(t, p.Socket(), testSizes)
		v.expect("up")
		v.ask("read 3")
		if err := f.Truncate(pageBytes); err != nil {
			t.Fatal(err)
		}
		v.tell("read 1500")
		over(t, p)
		for _, err := range []error{p.Why(nil), WhyGone(e, nil)} {
			if !errors.Is(err, vmm.ErrPages) || !strings.Contains(err.Error(), "want 8388608") {
				t.Errorf("it says %v", err)
			}
		}
	})
	t.Run("another machine's shape", func(t *testing.T) {
		f, _ := memoryFile(t)
		p, _ := started(t, f.Name(), "")
		startVictim(t, p.Socket(), "100").expect("up")
		over(t, p)
		if err := p.Why(nil); !errors.Is(err, vmm.ErrPages) || !strings.Contains(err.Error(), "the memory 8388608") {
			t.Errorf("it says %v", err)
		}
	})
	t.Run("killed", func(t *testing.T) {
		f, _ := memoryFile(t)
		p, _ := started(t, f.Name(), "")
		v := startVictim(t, p.Socket(), testSizes)
		v.expect("up")
		v.ask("read 3")
		if err := unix.Kill(p.Handle().PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		over(t, p)
		if err := p.Why(nil); !errors.Is(err, vmm.ErrPages) || !strings.Contains(err.Error(), "unexpectedly") {
			t.Errorf("it says %v", err)
		}
	})
	t.Run("let go", func(t *testing.T) {
		f, _ := memoryFile(t)
		p, _ := started(t, f.Name(), "")
		v := startVictim(t, p.Socket(), testSizes)
		v.expect("up")
		v.ask("hang")
		over(t, p)
		if err := p.Why(nil); !errors.Is(err, vmm.ErrPages) || !strings.Contains(err.Error(), "let go") {
			t.Errorf("it says %v", err)
		}
	})
}

func TestTheFirstMachineRecordsAndTheNextOneReads(t *testing.T) {
	f, content := memoryFile(t)
	set := filepath.Join(t.TempDir(), "set")
	p, _ := started(t, f.Name(), set)
	v := startVictim(t, p.Socket(), testSizes)
	v.expect("up")
	v.ask("read 1500")
	v.ask("read 20")
	ctx, cancel := context.WithTimeout(t.Context(), 6*RecordTime)
	defer cancel()
	for { // the lock is let go of when it's whole
		good, record := openSet(set, "a", testPages*pageBytes)
		if record != nil {
			t.Fatal("the recording was abandoned")
		}
		if good != nil {
			good.Close()
			break
		}
		select {
		case <-ctx.Done():
			t.Fatal("no working set was recorded")
		case <-time.After(20 * time.Millisecond):
		}
	}
	if _, err := os.Stat(set + RecordSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the recording is still there: %v", err)
	}
	p, e := started(t, f.Name(), set)
	v = startVictim(t, p.Socket(), testSizes)
	v.expect("up")
	if got := v.ask("sum 2"); got != sumOf(content) {
		t.Errorf("the memory's digest is %s, want %s", got, sumOf(content))
	}
	v.kill()
	over(t, p)
	r, err := readReport(filepath.Join(e.Dir, reportName))
	if err != nil || r.Prefetched == 0 || !r.Ended {
		t.Errorf("its report is %+v, %v", r, err)
	}
}

func TestAReportThatIsCutOffOrEndless(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, `{"ended":true}` + "\n": true, `{"faults":1}` + "\n" + `{"ended":tr`: false, "x\n" + `{"ended":true}`: false, strings.Repeat(" ", 2*maxReport) + `{"ended":true}` + "\n": false,
	} {
		var r report
		r.parse(strings.NewReader(text))
		if r.Ended != want {
			t.Errorf("%.30q is read as %+v", text, r)
		}
	}
}
