package template

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/image"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/vmm"
)

// The names in a template's directory.
const (
	manifestName = "manifest.json"
	memoryName   = "mem.img"
	stateName    = "state.bin"
	diskName     = rootfs.DiskName
)

// maxManifest bounds a manifest, in bytes: an order has at most a few MiB of commands.
const maxManifest = 16 << 20

// format is the version of the directory's layout.
const format = 2

// manifest says what a snapshot is made of. It's written last.
type manifest struct {
	Format    int                  `json:"format"`
	Template  string               `json:"template"`
	Order     Order                `json:"order"`
	Secondary bool                 `json:"secondary,omitempty"` // of another shape than the template's own
	Made      time.Time            `json:"made"`
	Size      rootfs.Size          `json:"size"`
	Sources   sources              `json:"sources"`
	Defaults  Defaults             `json:"defaults"`
	Image     *image.Config        `json:"image,omitempty"` // of a source that is an image
	VMM       vmm.Manifest         `json:"vmm"`
	Files     map[string]seal.Info `json:"files"`
}

// sources are what a snapshot was made with. One that was made with others than today's is out of date.
type sources struct {
	Recipe       string `json:"recipe,omitempty"` // digest; of a template that is a recipe's and nothing more: it can be made anew whenever that changes
	Kernel       string `json:"kernel"`           // digest of kernel and initramfs, which has the guest in it
	Driver       string `json:"driver"`           // name
	Acceleration string `json:"acceleration"`
	Version      string `json:"version"` // of the driver's VMM
}

// sourcesOf are what a snapshot would be made with today.
func sourcesOf(c *Config, o Order) sources {
	v := c.Driver.Capabilities()
	s := sources{Kernel: c.Kernel.Digest, Driver: c.Driver.Name(), Acceleration: v.Acceleration, Version: v.Version}
	if r, err := rootfs.Find(o.Recipe); err == nil && len(o.Steps) == 0 && o.Start == "" {
		s.Recipe = r.Digest()
	}
	return s
}

// base is a snapshot on file.
type base struct {
	dir     string
	m       manifest
	digest  string // of the manifest
	seen    map[string]seal.Inode
	use     sync.RWMutex // held for reading by those who load from it
	sealed  *os.File     // its memory, shared by all machines; nil if it isn't. The store's mu guards it
	letGo   func()       // gives back what that was promised. The store's mu guards it, as the next two
	sharing bool         // it's being shared
	tried   time.Time    // when that was tried last
	unfit   bool         // the driver has refused it. The store's mu guards it
}

func (b *base) file(name string) string { return filepath.Join(b.dir, name) }

// readBase reads a snapshot's manifest and checks that its files are there whole, by their lengths.
func readBase(dir string) (*base, error) {
	text, err := durable.ReadFile(filepath.Join(dir, manifestName), maxManifest)
	if err != nil {
		return nil, err
	}
	b := &base{dir: dir}
	if err := json.Unmarshal(text, &b.m); err != nil {
		return nil, fmt.Errorf("read %s: %w", manifestName, err)
	}
	if b.m.Format != format {
		return nil, fmt.Errorf("read %s: format %d, want %d", manifestName, b.m.Format, format)
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	if err := b.remember(); err != nil {
		return nil, err
	}
	b.digest = seal.ManifestDigest(text)
	return b, nil
}

// remember notes which files were read, for check.
func (b *base) remember() error {
	seen := map[string]seal.Inode{}
	for _, name := range []string{diskName, memoryName, stateName} {
		var err error
		if seen[name], err = seal.InodeOf(b.file(name)); err != nil {
			return err
		}
	}
	b.seen = seen
	return nil
}

// verify compares what a machine's memory and devices are loaded from with the manifest: a snapshot whose files were exchanged would load, and its
// machine do anything. Their data is read whole, some 40 MiB. A disk's damage shows in its file system; reading all of it takes seconds.
func (b *base) verify() error {
	for _, name := range []string{stateName, memoryName} {
		got, err := seal.Digest(context.Background(), b.file(name))
		if err != nil {
			return err
		}
		if want := b.m.Files[name].SHA256; got.SHA256 != want {
			return fmt.Errorf("%s has the digest %s, the manifest says %s", name, got.SHA256, want)
		}
	}
	return nil
}

// check checks that the files are there whole and are those that were read: somebody may have changed them under the daemon.
func (b *base) check() error {
	if _, err := os.Stat(b.file(manifestName)); err != nil {
		return err
	}
	for _, name := range []string{diskName, memoryName, stateName} {
		if err := b.checkFile(name); err != nil {
			return err
		}
	}
	return nil
}

func (b *base) checkFile(name string) error {
	now, err := seal.InodeOf(b.file(name))
	if err != nil {
		return err
	}
	if want := b.m.Files[name].Bytes; now.Bytes != want {
		return fmt.Errorf("%s has %d bytes, the manifest says %d", name, now.Bytes, want)
	}
	if was, ok := b.seen[name]; ok && now != was {
		return fmt.Errorf("%s was changed or exchanged", name)
	}
	return nil
}
