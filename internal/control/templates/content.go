package templates

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/space-platform/space/internal/control/record"
)

// content is what decides about a template. Its JSON is hashed, and a migration writes it for the templates that were there before.
type content struct {
	Build       record.Build `json:"build"`
	VCPUs       uint32       `json:"vcpus"`
	MemoryBytes uint64       `json:"memory_bytes"`
	DiskBytes   uint64       `json:"disk_bytes"`
}

// hashContent is the same for two templates that are the same. An upload counts by its digest if that is known, else by its id.
func hashContent(b record.Build, s record.Shape, uploads map[string]string) ([32]byte, error) {
	same := func(id string) string {
		if digest := uploads[id]; digest != "" {
			return "sha256:" + digest
		}
		return id
	}
	b.NoCache = false
	b.Source.Archive, b.Source.Rootfs = same(b.Source.Archive), same(b.Source.Rootfs)
	b.Steps = slices.Clone(b.Steps)
	for i, step := range b.Steps {
		if step.Copy != nil {
			c := *step.Copy
			c.Upload = same(c.Upload)
			b.Steps[i].Copy = &c
		}
	}
	out, err := json.Marshal(content{Build: b, VCPUs: s.VCPUs, MemoryBytes: s.MemoryBytes, DiskBytes: s.DiskBytes})
	return sha256.Sum256(out), err
}
