package template

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/vmm"
)

// The names in a template's directory.
const (
	manifestName = "manifest.json"
	memoryName   = "mem.img"
	stateName    = "state.bin"
	diskName     = rootfs.DiskName
)

// maxManifest bounds a manifest, in bytes.
const maxManifest = 64 << 10

// format is the version of the directory's layout.
const format = 1

// manifest says what a template is made of. It's written last.
type manifest struct {
	Format   int                 `json:"format"`
	Template string              `json:"template"`
	Recipe   string              `json:"recipe"`
	Made     time.Time           `json:"made"`
	Size     rootfs.Size         `json:"size"`
	Sources  sources             `json:"sources"`
	VMM      vmm.Manifest        `json:"vmm"`
	Files    map[string]fileInfo `json:"files"`
}

// sources are what a template was made from. One that was made from others than today's is out of date.
type sources struct {
	Recipe       string `json:"recipe"` // digest
	Kernel       string `json:"kernel"` // digest of kernel and initramfs, which has the guest in it
	Driver       string `json:"driver"` // name
	Acceleration string `json:"acceleration"`
	Version      string `json:"version"` // of the driver's VMM
}

// fileInfo is what is known of a file of a template.
type fileInfo struct {
	Bytes  int64  `json:"bytes"`  // its length
	Data   int64  `json:"data"`   // how many of them aren't in a hole
	SHA256 string `json:"sha256"` // see digest
}

// readManifest reads a template's manifest and checks that its files are there whole, by their lengths.
func readManifest(dir string) (manifest, string, error) {
	b, err := durable.ReadFile(filepath.Join(dir, manifestName), maxManifest)
	if err != nil {
		return manifest{}, "", err
	}
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return manifest{}, "", fmt.Errorf("read %s: %w", manifestName, err)
	}
	if m.Format != format {
		return manifest{}, "", fmt.Errorf("read %s: format %d, want %d", manifestName, m.Format, format)
	}
	for _, name := range []string{diskName, memoryName, stateName} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return manifest{}, "", err
		}
		if want := m.Files[name].Bytes; info.Size() != want {
			return manifest{}, "", fmt.Errorf("%s has %d bytes, the manifest says %d", name, info.Size(), want)
		}
	}
	sum := sha256.Sum256(b)
	return m, "sha256:" + hex.EncodeToString(sum[:]), nil
}
