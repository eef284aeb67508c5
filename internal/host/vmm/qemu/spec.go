package qemu

import (
	"encoding/json"
	"fmt"

	"github.com/space-platform/space/internal/host/vmm"
)

// spec is what must be known of a machine to go on with it in another life of the daemon. The handle carries it.
type spec struct {
	ID       string       `json:"id"`
	Monitor  string       `json:"monitor"` // socket paths
	Link     string       `json:"link"`
	Memory   memoryFile   `json:"memory"`
	Private  bool         `json:"private"` // whether the memory file is mapped privately: the machine was loaded
	Manifest vmm.Manifest `json:"manifest"`
}

const specDetail = "machine"

func (s spec) details() (map[string]string, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write down machine %s: %w", s.ID, err)
	}
	return map[string]string{specDetail: string(b)}, nil
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
