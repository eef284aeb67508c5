package firecracker

import (
	"encoding/json"
	"fmt"

	"github.com/space-platform/space/internal/host/vmm"
)

// Where a machine's files and sockets are, as Firecracker sees them.
const (
	kernelPath = "/vm/kernel"
	initrdPath = "/vm/initrd"
	diskPath   = "/vm/disk"
	memoryPath = "/vm/memory" // of a loaded machine, or where a booted one's is saved
	statePath  = "/vm/state"  // of a snapshot that is loaded

	savedStatePath  = "/vm/saved-state" // places for what is lent while a machine is saved
	savedMemoryPath = "/vm/saved-memory"

	apiSocket  = "/run/api.sock"
	linkSocket = "/run/link.sock"
)

// The devices' ids, and the guest's address on the vsock: 3 is the first that isn't reserved. Each machine has a socket of its own, so all can
// have the same.
const (
	diskID    = "disk"
	networkID = "net"
	guestCID  = 3
)

// spec is what must be known of a machine to go on with it in another life of the daemon. The handle carries it.
type spec struct {
	ID       string       `json:"id"`
	Loaded   bool         `json:"loaded"`          // from a snapshot
	OwnFile  bool         `json:"own_file"`        // booted, with a file for its memory
	Inode    uint64       `json:"inode"`           // of the file that a loaded machine's memory is mapped from
	Pager    *vmm.Handle  `json:"pager,omitempty"` // who brings a loaded machine's memory page by page
	Manifest vmm.Manifest `json:"manifest"`
}

const specDetail = "machine"

func (s spec) details() map[string]string {
	b, err := json.Marshal(s)
	if err != nil { // strings and numbers always have a JSON form
		panic(err)
	}
	return map[string]string{specDetail: string(b)}
}

func parseSpec(h vmm.Handle) (spec, error) {
	var s spec
	if h.Driver != Name {
		return s, fmt.Errorf("a handle of driver %q: want %q", h.Driver, Name)
	}
	if err := json.Unmarshal([]byte(h.Details[specDetail]), &s); err != nil {
		return s, fmt.Errorf("read what the handle says of the machine: %w", err)
	}
	return s, nil
}
