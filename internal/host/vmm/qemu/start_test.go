package qemu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/space-platform/space/internal/host/vmm"
)

// refuser is a Starter that starts nothing and keeps what it was to start.
type refuser struct {
	vmm.Starter
	command vmm.Command
}

var errRefused = errors.New("refused")

func (r *refuser) Start(_ context.Context, c vmm.Command) (vmm.Process, error) {
	r.command = c
	return vmm.Process{}, errRefused
}

func TestAnEnclosureIsGivenKVMOnlyWhereItIsUsed(t *testing.T) {
	const size = 1 << 20
	memory := filepath.Join(t.TempDir(), "memory")
	if err := os.WriteFile(memory, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	for acceleration, want := range map[string]vmm.Source{"kvm": {Path: "/dev/kvm", Writable: true}, "tcg": {}} {
		d := &Driver{config: Config{Acceleration: acceleration, Program: Program}}
		r := &refuser{}
		_, err := d.Boot(t.Context(), vmm.Enclosure{ID: "m", Dir: t.TempDir(), Starter: r}, vmm.Boot{
			Shape: vmm.Shape{VCPUs: 1, MemoryBytes: size}, Kernel: "/k", Initrd: "/i", Memory: memory,
		})
		if !errors.Is(err, errRefused) {
			t.Fatalf("%s: %v", acceleration, err)
		}
		if got := r.command.Bind["/dev/kvm"]; got != want {
			t.Errorf("%s: it's given %+v, want %+v", acceleration, got, want)
		}
	}
}
