package template

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/image"
	"github.com/space-platform/space/internal/host/rootfs"
)

// layers keeps the disks that steps began with, by the keys of all that went into them. They share their blocks with each other and with
// templates; when there are too many, those go that were used longest ago.
type layers struct {
	mu    sync.Mutex // held by who keeps a layer, or takes one
	dir   string
	limit int64 // bytes of all disks, shared blocks counted for each
	clone func(from, to string, uid int) error
}

// layer is what is on file about a layer.
type layer struct {
	Key    string        `json:"key"`
	Config *image.Config `json:"config,omitempty"` // of a source that is an image
}

const (
	layerName = "layer.json"
	maxLayer  = 1 << 20 // bytes of its record
)

func newLayers(c Config) *layers { return &layers{dir: c.Layers, limit: c.LayerBytes, clone: c.Clone} }

// take clones a layer's disk to a path, if there is one.
func (l *layers) take(key, path string) (layer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, disk, ok := l.find(key)
	return r, ok && l.clone(disk, path, 0) == nil
}

// find returns a layer and its disk. mu is held.
func (l *layers) find(key string) (layer, string, bool) {
	dir := filepath.Join(l.dir, key)
	var r layer
	if err := durable.ReadJSON(filepath.Join(dir, layerName), maxLayer, &r); err != nil || r.Key != key {
		return r, "", false
	}
	now := time.Now()
	os.Chtimes(dir, now, now) // so that it isn't the next one to go
	return r, filepath.Join(dir, rootfs.DiskName), true
}

// put keeps a clone of a disk as a layer, and takes the place of one that's there. The disk isn't being written.
func (l *layers) put(r layer, disk string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	final := filepath.Join(l.dir, r.Key)
	dir := final + buildSuffix
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return fmt.Errorf("keep a layer: %w", err)
	}
	err := l.fill(dir, r, disk)
	if err == nil {
		err = os.RemoveAll(final)
	}
	if err == nil {
		err = durable.Rename(dir, final)
	}
	if err != nil {
		os.RemoveAll(dir)
		return fmt.Errorf("keep a layer: %w", err)
	}
	return l.shrink(l.limit, r.Key)
}

func (l *layers) fill(dir string, r layer, disk string) error {
	path := filepath.Join(dir, rootfs.DiskName)
	if err := l.clone(disk, path, 0); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	return durable.WriteJSON(filepath.Join(dir, layerName), r, 0o600)
}

// kept is a layer in the directory.
type kept struct {
	path  string
	bytes int64
	used  time.Time
}

// shrink removes layers until they take no more than a limit. One stays. mu is held.
func (l *layers) shrink(limit int64, stay string) error {
	all, total, err := l.all()
	if err != nil {
		return err
	}
	for _, k := range all {
		if total <= limit {
			return nil
		}
		if filepath.Base(k.path) == stay {
			continue
		}
		slog.Info("dropping a layer of templates", "layer", filepath.Base(k.path), "bytes", k.bytes)
		if err := os.RemoveAll(k.path); err != nil {
			return fmt.Errorf("make room for layers: %w", err)
		}
		total -= k.bytes
	}
	return nil
}

// all returns all layers, those first that were used longest ago, and removes what isn't one.
func (l *layers) all() (out []kept, total int64, err error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, 0, fmt.Errorf("look at the layers: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(l.dir, e.Name())
		var dir, disk syscall.Stat_t
		if strings.HasSuffix(path, buildSuffix) || syscall.Stat(path, &dir) != nil || syscall.Stat(filepath.Join(path, rootfs.DiskName), &disk) != nil {
			if err := os.RemoveAll(path); err != nil {
				return nil, 0, fmt.Errorf("remove an unfinished layer: %w", err)
			}
			continue
		}
		out = append(out, kept{path, disk.Blocks * statBlock, time.Unix(dir.Mtim.Sec, dir.Mtim.Nsec)})
		total += disk.Blocks * statBlock
	}
	slices.SortFunc(out, func(a, b kept) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path)) })
	return out, total, nil
}

// statBlock is the unit of a file's blocks, in bytes.
const statBlock = 512
