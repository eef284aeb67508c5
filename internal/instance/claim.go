package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// registry is the file that maps the names of this machine's instances to their slots.
func registry() string { return filepath.Join(Root, "instances.json") }

// Claim returns the instance of a name and gives it a slot if it has none. Only root can claim.
func Claim(name string) (Instance, error) {
	if err := CheckName(name); err != nil {
		return Instance{}, err
	}
	var out Instance
	err := withRegistry(func(slots map[string]int) (bool, error) {
		if slot, ok := slots[name]; ok {
			out = Instance{Name: name, Slot: slot}
			return false, nil
		}
		slot, err := freeSlot(slots)
		if err != nil {
			return false, fmt.Errorf("claim instance %s: %w", name, err)
		}
		slots[name] = slot
		out = Instance{Name: name, Slot: slot}
		return true, nil
	})
	return out, err
}

// Release gives an instance's slot back. Everything that it owned must be gone. With the last instance goes the registry.
func Release(name string) error {
	return withRegistry(func(slots map[string]int) (bool, error) {
		delete(slots, name)
		return true, nil
	})
}

// Find returns the instance of a name; fs.ErrNotExist if no platform of that name was set up on this machine.
func Find(name string) (Instance, error) {
	if err := CheckName(name); err != nil {
		return Instance{}, err
	}
	slots, err := readRegistry()
	if err != nil {
		return Instance{}, err
	}
	slot, ok := slots[name]
	if !ok {
		return Instance{}, fmt.Errorf("instance %s: %w", name, fs.ErrNotExist)
	}
	return Instance{Name: name, Slot: slot}, nil
}

// List returns the names of this machine's instances with their slots.
func List() (map[string]int, error) { return readRegistry() }

func freeSlot(slots map[string]int) (int, error) {
	used := make(map[int]bool, len(slots))
	for _, s := range slots {
		used[s] = true
	}
	for s := range MaxSlots - TestSlots {
		if !used[s] {
			return s, nil
		}
	}
	return 0, fmt.Errorf("all %d slots of this machine are taken: remove one with 'space purge --instance NAME'", MaxSlots-TestSlots)
}

func readRegistry() (map[string]int, error) {
	slots := map[string]int{}
	b, err := os.ReadFile(registry())
	if errors.Is(err, fs.ErrNotExist) {
		return slots, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the instances of this machine: %w", err)
	}
	if err := json.Unmarshal(b, &slots); err != nil {
		return nil, fmt.Errorf("read the instances of this machine: %s: %w", registry(), err)
	}
	return slots, nil
}

// withRegistry runs change under a lock, and writes the registry when it says so.
func withRegistry(change func(slots map[string]int) (write bool, err error)) error {
	lock, err := os.Open(filepath.Dir(Root)) // a directory that nobody removes: a lock on a removed file excludes nobody
	if err != nil {
		return fmt.Errorf("lock the instances of this machine: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock the instances of this machine: %w", err)
	}
	slots, err := readRegistry()
	if err != nil {
		return err
	}
	write, err := change(slots)
	if err != nil || !write {
		return err
	}
	return writeRegistry(slots)
}

// writeRegistry replaces the registry in one step, or removes it with its directory when no instance is left.
func writeRegistry(slots map[string]int) error {
	if len(slots) == 0 {
		if err := os.Remove(registry()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the list of this machine's instances: %w", err)
		}
		os.Remove(Root) // stays if somebody put something there
		return nil
	}
	if err := os.MkdirAll(Root, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", Root, err)
	}
	b, err := json.MarshalIndent(slots, "", "  ")
	if err != nil {
		return err
	}
	tmp := registry() + ".new"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the instances of this machine: %w", err)
	}
	if err := os.Rename(tmp, registry()); err != nil {
		return fmt.Errorf("write the instances of this machine: %w", err)
	}
	return nil
}
