//go:build firecracker

// The real Firecracker needs KVM: 'make test-firecracker' runs these tests in an L1 where the host has none that works.

package firecracker_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/cgroup"
	"github.com/space-platform/space/internal/host/doctor"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker"
	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
	"github.com/space-platform/space/internal/host/vmm/selftest"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
	"github.com/space-platform/space/internal/instance/instancetest"
)

// What these tests read from the environment.
const (
	programVariable  = "FIRECRACKER"
	jailerVariable   = "JAILER"
	factorVariable   = "SPACE_TEST_CPU_FACTOR" // how much slower a guest is than the host; "" where the processor is real
	argsVariable     = "SPACE_TEST_KERNEL_ARGS"
	exchangeVariable = "SPACE_TEST_EXCHANGES" // file for what was said between the driver and Firecracker
	judgeVariable    = "SPACE_TEST_JUDGE"     // anything: the machine does nothing else, and times are judged
)

// judged tells whether times are.
func judged() bool { return os.Getenv(judgeVariable) != "" }

// recording keeps one exchange of each kind.
type recording struct {
	mu   sync.Mutex
	kept map[string]api.Exchange
}

func (r *recording) note(x api.Exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var answer struct{ State string }
	json.Unmarshal(x.Answer, &answer) // most have no answer
	key := x.Method + x.Path + strconv.Itoa(x.Status) + string(x.Body) + answer.State
	if _, ok := r.kept[key]; !ok && len(r.kept) < 200 {
		r.kept[key] = x
	}
}

func (r *recording) write(t *testing.T, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, x := range r.kept {
		if err := json.NewEncoder(f).Encode(x); err != nil {
			t.Error(err)
		}
	}
}

// driver makes one, and notes what it says to Firecracker.
func driver(t *testing.T, change func(*firecracker.Config)) *firecracker.Driver {
	t.Helper()
	factor, _ := strconv.ParseFloat(os.Getenv(factorVariable), 64)
	self, err := os.Executable() // it's the pager, too: see TestMain
	if err != nil {
		t.Fatal(err)
	}
	c := firecracker.Config{
		Program: os.Getenv(programVariable), Jailer: os.Getenv(jailerVariable), Pager: self, CPUFactor: factor,
		Args: strings.Fields(os.Getenv(argsVariable)),
	}
	if path := os.Getenv(exchangeVariable); path != "" {
		r := &recording{kept: map[string]api.Exchange{}}
		c.Trace = r.note
		t.Cleanup(func() { r.write(t, path) })
	}
	if change != nil {
		change(&c)
	}
	d, err := firecracker.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// livesGoal is how many machines are to have lived within livesTime.
const (
	livesGoal = 40
	livesTime = 3 * time.Minute
)

// lives counts machines.
type lives struct {
	vmm.Driver
	began time.Time
	count atomic.Int64
	goal  atomic.Int64 // the time until livesGoal of them had started, a time.Duration
}

func (l *lives) Boot(ctx context.Context, e vmm.Enclosure, b vmm.Boot) (vmm.Machine, error) {
	return l.counted(l.Driver.Boot(ctx, e, b))
}

func (l *lives) Load(ctx context.Context, e vmm.Enclosure, s vmm.Load) (vmm.Machine, error) {
	return l.counted(l.Driver.Load(ctx, e, s))
}

func (l *lives) counted(m vmm.Machine, err error) (vmm.Machine, error) {
	if err == nil && l.count.Add(1) == livesGoal {
		l.goal.Store(int64(time.Since(l.began)))
	}
	return m, err
}

// tripleFaults counts the guests of which Firecracker says that the processor gave up on them.
type tripleFaults struct {
	slog.Handler
	count atomic.Int64
}

func (f *tripleFaults) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if strings.Contains(a.Value.String(), "Unexpected exit reason on vcpu run: Shutdown") {
			f.count.Add(1)
		}
		return true
	})
	return f.Handler.Handle(ctx, r)
}

func TestConformance(t *testing.T) {
	k := vmmtest.Kernel(t)
	faults := &tripleFaults{Handler: slog.NewTextHandler(os.Stderr, nil)}
	slog.SetDefault(slog.New(faults))
	d := &lives{Driver: driver(t, nil), began: time.Now()}
	vmmtest.Run(t, vmmtest.Fixture{
		Driver: d, Shape: vmm.Shape{VCPUs: 1, MemoryBytes: 192 << 20}, Kernel: k.Vmlinux, SMP: k.SMP, Initrd: k.Initrd,
		Tuned: k.Tuned, Disk: vmmtest.Image(t), Virtual: true, Enclosure: jailed(t),
	})
	groups, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	if goal := time.Duration(d.goal.Load()); judged() && (goal == 0 || goal > livesTime) {
		t.Errorf("the first %d lives took %s, want at most %s", livesGoal, goal.Round(time.Second), livesTime)
	}
	t.Logf("%d lives, of which %d died of a triple fault, with Firecracker %s on cgroup v%d in %s, the first %d in %s", d.count.Load(), faults.count.Load(), d.Capabilities().Version, groups.Version(),
		time.Since(d.began).Round(time.Second), livesGoal, time.Duration(d.goal.Load()).Round(time.Second))
}

// TestWhatAnOperatorChooses boots and loads with a CPU template and limits of the network.
func TestWhatAnOperatorChooses(t *testing.T) {
	k := vmmtest.Kernel(t)
	enclosure := jailed(t)
	choose := func(c *firecracker.Config) {
		c.ReceiveBytes, c.SendBytes = 10<<20, 5<<20
		// Without an instruction for random numbers, which a guest can do without.
		c.CPU = json.RawMessage(`{"cpuid_modifiers":[{"leaf":"0x1","subleaf":"0x0","flags":0,"modifiers":[{"register":"ecx","bitmap":"0bx0xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}]}]}`)
	}
	test := selftest.Test{
		Driver: driver(t, choose), Kernel: k.Vmlinux, Initrd: k.Initrd, Dir: t.TempDir(),
		Enclose: func(context.Context) (vmm.Enclosure, func() error, error) {
			return enclosure(t), func() error { return nil }, nil
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := test.Run(ctx); err != nil {
		t.Error(err)
	}
}

// TestTheDoctorsGuest boots what the doctor boots.
func TestTheDoctorsGuest(t *testing.T) {
	const patience = time.Minute // where KVM itself runs in an emulated machine
	if err := doctor.BootFirecracker(t.Context(), os.Getenv(programVariable), "", patience); err != nil {
		t.Error(err)
	}
}

func TestSelfTest(t *testing.T) {
	k := vmmtest.Kernel(t)
	enclosure := jailed(t)
	d := driver(t, nil)
	for _, paged := range []bool{false, d.Capabilities().PagedMemory} {
		test := selftest.Test{
			Driver: d, Paged: paged, Kernel: k.Vmlinux, Initrd: k.Initrd, Dir: t.TempDir(),
			Enclose: func(context.Context) (vmm.Enclosure, func() error, error) {
				return enclosure(t), func() error { return nil }, nil
			},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		if err := test.Run(ctx); err != nil {
			t.Errorf("paged %t: %v", paged, err)
		}
		cancel()
	}
}

// jailed makes real enclosures, of an instance that only this process has.
func jailed(t *testing.T) func(*testing.T) vmm.Enclosure {
	t.Helper()
	here := instancetest.Own(t) // a jail ends what it finds under its uids
	j, err := jail.New(here)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := j.Sweep(context.Background(), nil); err != nil || len(left) > 0 {
			t.Errorf("the machines left %v, %v", left, err)
		}
		j.Close()
		os.RemoveAll(here.RunDir())
		os.Remove(filepath.Dir(here.RunDir())) // unless other instances run
	})
	first, _ := here.VMUIDs()
	var made atomic.Int64
	return func(t *testing.T) vmm.Enclosure {
		t.Helper()
		s := jail.Spec{
			ID: vmmtest.NextID("exe_"), UID: first + int(made.Add(1)),
			Limits: cgroup.Limits{MemoryBytes: 512 << 20, CPUMillis: 2000, PIDs: 64},
		}
		e, err := j.Enclose(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := j.Remove(context.WithoutCancel(t.Context()), s); err != nil {
				t.Error(err)
			}
		})
		return e
	}
}
