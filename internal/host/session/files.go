package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"
)

// The files of a session's directory, beside the ring's segments. None is synced while its machine runs, which dies with its host: what must
// survive is only the death of this process. When the machine was stopped all are, by who stopped it.
const (
	specFile      = "spec.pb"      // what to run; written before the guest hears of it
	startedFile   = "started.pb"   // the moment it started
	inputEndFile  = "input-end.pb" // the length of a stdin that was open, and was closed
	exitFile      = "exit.pb"      // how it ended
	forgottenFile = "forgotten.pb" // empty: the guest has forgotten it
	lostFile      = "lost.pb"      // why it will never end
	restoredFile  = "restored.pb"  // empty: it comes from a snapshot, so its output may have been longer once
	guestFile     = "guest.pb"     // the id that the guest knows it by, if that's another one: it comes from another sandbox's snapshot

	// overFile is in the directory of a set: its execution is over, and why.
	overFile = "over.pb"
)

// writeMessage replaces a file by a message as a whole.
func writeMessage(dir, name string, m proto.Message) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("write %s of a session: %w", name, err)
	}
	tmp := filepath.Join(dir, name+".new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("write %s of a session: %w", name, err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("write %s of a session: %w", name, err)
	}
	return nil
}

// readMessage reports whether the file is there.
func readMessage(dir, name string, m proto.Message) (bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s of a session: %w", name, err)
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return false, fmt.Errorf("read %s of a session: %w", name, err)
	}
	return true, nil
}
