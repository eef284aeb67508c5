package fake

import (
	"fmt"
	"os"

	"github.com/space-platform/space/internal/host/vmm"
)

// stateText is all that a saved state says.
const stateText = "a fake machine's state\n"

// maxState bounds a state file that is read; ours has some bytes.
const maxState = 4 << 10

func writeState(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(stateText), 0)
	return err
}

// checkState refuses a file that Save didn't write.
func checkState(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() > maxState {
		return fmt.Errorf("state %s has %d bytes, more than any of ours", path, info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if string(b) != stateText {
		return fmt.Errorf("state %s isn't one of ours", path)
	}
	return nil
}

// Snapshot makes a snapshot of a machine that never was: its state in a file, which may be shared by all, and its manifest.
func Snapshot(state string, s vmm.Shape) (vmm.Manifest, error) {
	if _, err := os.Stat(state); err != nil {
		if err := os.WriteFile(state, []byte(stateText), 0o600); err != nil {
			return vmm.Manifest{}, fmt.Errorf("make a fake snapshot: %w", err)
		}
	}
	return manifest(s), nil
}
