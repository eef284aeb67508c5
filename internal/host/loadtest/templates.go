package loadtest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/template"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/fake"
)

// usual is the size of a template that doesn't say.
var usual = rootfs.Size{VCPUs: 1, MemoryBytes: 128 << 20, DiskBytes: 1 << 30}

const (
	stateName = "state"
	emptyName = "empty"
	maxOrder  = 1 << 20 // bytes of a template's order on file
)

// templates are ready as soon as they're ordered: nothing is made.
type templates struct {
	dir     string
	changed func()

	mu    sync.Mutex // guards ready
	ready map[string]ready
}

// ready is a template on file.
type ready struct {
	Template string            `json:"template"`
	Size     rootfs.Size       `json:"size"`
	Defaults template.Defaults `json:"defaults"`
}

func openTemplates(dir string, changed func()) (*templates, error) {
	t := &templates{dir: dir, changed: changed, ready: map[string]ready{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		var r ready
		if err := durable.ReadJSON(f, maxOrder, &r); err != nil {
			return nil, err
		}
		t.ready[r.Template] = r
	}
	return t, os.WriteFile(filepath.Join(dir, emptyName), nil, 0o600)
}

func (t *templates) file(id string) string {
	return filepath.Join(t.dir, space.HostLabel(id)+".json")
}

// Ensure implements service.Templates.
func (t *templates) Ensure(o template.Order) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.ready[o.Template]; ok {
		return nil
	}
	size := rootfs.Size{
		VCPUs: cmp.Or(o.Size.VCPUs, usual.VCPUs), MemoryBytes: cmp.Or(o.Size.MemoryBytes, usual.MemoryBytes), DiskBytes: cmp.Or(o.Size.DiskBytes, usual.DiskBytes),
	}
	r := ready{Template: o.Template, Size: size, Defaults: o.Defaults}
	if err := durable.WriteJSON(t.file(o.Template), r, 0o600); err != nil {
		return err
	}
	t.ready[o.Template] = r
	t.changed()
	return nil
}

// Remove implements service.Templates.
func (t *templates) Remove(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.ready[id]; !ok {
		return nil
	}
	if err := durable.Remove(t.file(id)); err != nil {
		return err
	}
	delete(t.ready, id)
	t.changed()
	return nil
}

// Acknowledge has nothing to let go of: no build has a log.
func (t *templates) Acknowledge(map[string]uint64) {}

// Reports implements service.Templates.
func (t *templates) Reports() []template.Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []template.Report
	for _, r := range t.ready {
		out = append(out, template.Report{
			Template: r.Template, State: template.Ready, Size: r.Size, Defaults: r.Defaults, Digest: "sha256:" + strings.Repeat("0", 64),
		})
	}
	return out
}

// SnapshotFor implements execution.Templates: there is a snapshot of any size.
func (t *templates) SnapshotFor(id string, size rootfs.Size) (template.Snapshot, func(), error) {
	t.mu.Lock()
	r, ok := t.ready[id]
	t.mu.Unlock()
	if !ok {
		return template.Snapshot{}, nil, space.Errorf(space.CodeTemplateNotReady, "the node has no template %s", id)
	}
	if size == (rootfs.Size{}) {
		size = r.Size
	}
	state := filepath.Join(t.dir, stateName)
	m, err := fake.Snapshot(state, vmm.Shape{VCPUs: size.VCPUs, MemoryBytes: size.MemoryBytes})
	memory := filepath.Join(t.dir, fmt.Sprintf("memory-%d", size.MemoryBytes))
	if err == nil {
		err = ensureEmpty(memory, size.MemoryBytes)
	}
	return template.Snapshot{State: state, Memory: memory, Disk: filepath.Join(t.dir, emptyName), Size: size, Manifest: m}, func() {}, err
}

// ensureEmpty makes a file of a size that takes no room.
func ensureEmpty(path string, bytes int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(bytes), f.Close())
}

// BuildShape, Start, Loadable, Probe and Reject implement execution.Templates: there is no pool, and nothing runs in a snapshot.
func (t *templates) BuildShape(string, rootfs.Size) {}
func (t *templates) Start(string) *sessionv1.Spec   { return nil }
func (t *templates) Loadable() []template.Loadable  { return nil }
func (t *templates) Probe(string) *sessionv1.Spec   { return nil }
func (t *templates) Reject(string)                  {}
