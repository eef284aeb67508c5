package execution

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/peer"
)

// The names in an execution's directory.
const (
	recordName = "record.json"
	diskName   = "disk.img"
	memoryName = "mem.img"
)

// maxRecord bounds a record, in bytes.
const maxRecord = 64 << 10

// record is what is on file about an execution. Its only writer is the execution's owner.
type record struct {
	Route    space.Route `json:"route"`
	Template string      `json:"template"`
	DiskOf   string      `json:"disk_of,omitempty"` // the execution whose disk it boots from

	Snapshot       string         `json:"snapshot,omitempty"` // the snapshot that it's loaded from, or from whose disk it boots
	SnapshotDigest string         `json:"snapshot_digest,omitempty"`
	Cold           bool           `json:"cold,omitempty"` // it boots, though the snapshot has a memory
	Lineage        lineage        `json:"lineage,omitzero"`
	Sessions       []session.Copy `json:"sessions,omitempty"` // that came with the snapshot

	Size     rootfs.Size          `json:"size"`
	UID      int                  `json:"uid"`            // 0 when it was given back
	Home     string               `json:"home,omitempty"` // the enclosure's id, if it was a slot's; else the execution's is meant
	State    space.ExecutionState `json:"state"`
	Since    time.Time            `json:"since"`
	Error    *problem             `json:"error,omitempty"`    // with failed and lost
	Machine  *vmm.Handle          `json:"machine,omitempty"`  // while there is one
	Shared   promise.Shared       `json:"shared,omitzero"`    // the memory that it shares with others
	Stopping bool                 `json:"stopping,omitempty"` // Stop was called: it becomes stopped, or is removed
	Grace    time.Duration        `json:"grace,omitempty"`    // with Stopping: what the processes have between SIGTERM and SIGKILL
	Removing bool                 `json:"removing,omitempty"` // Remove was called: nothing else will happen

	Quiet      bool   `json:"quiet,omitempty"`      // with paused: the guest is at rest
	Suspending string `json:"suspending,omitempty"` // the snapshot that is being made; when it's ready the execution is suspended, whatever the state says
	Suspended  string `json:"suspended,omitempty"`  // with suspended: the snapshot that holds it
}

// home is the id of the enclosure.
func (r record) home() string { return cmp.Or(r.Home, r.Route.Execution) }

// problem is a space.Error on file.
type problem struct {
	Code    space.Code `json:"code"`
	Message string     `json:"message"`
}

func problemOf(err error) *problem {
	e := peer.Public(err)
	if e.Code == space.CodeInternal {
		return &problem{Code: e.Code, Message: "the machine could not be made; the operator's log has the cause"}
	}
	return &problem{Code: e.Code, Message: e.Message}
}

// err returns the problem as an error; nil for none.
func (p *problem) err() error {
	if p == nil {
		return nil
	}
	return p.space()
}

func (p *problem) space() *space.Error { return &space.Error{Code: p.Code, Message: p.Message} }

func readRecord(dir string) (record, error) {
	var r record
	if err := durable.ReadJSON(filepath.Join(dir, recordName), maxRecord, &r); err != nil {
		return record{}, err
	}
	return r, r.Route.Check()
}

func (r record) write(dir string) error {
	return durable.WriteJSON(filepath.Join(dir, recordName), r, 0o600)
}

// prepared is a record that is on the disk and not yet on file.
type prepared struct {
	record
	*durable.Prepared
}

func (r record) prepare(dir string) (*prepared, error) {
	p, err := durable.PrepareJSON(filepath.Join(dir, recordName), r, 0o600)
	return &prepared{r, p}, err
}

// unreadableSuffix ends the name of a directory whose record can't be read. Only an operator deletes it.
const unreadableSuffix = ".unreadable"

// readRecords returns the records below dir by the names of their directories. A directory without a record belongs to nobody: its
// maker died before anything else existed, or its remover after everything else was gone, or it's a slot's of the pool. One whose record can't be read is put aside, so
// that a broken disk block costs an execution and not the node.
func readRecords(dir string) (map[string]record, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the executions of this node: %w", err)
	}
	out := map[string]record{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), unreadableSuffix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		r, err := readRecord(path)
		switch {
		case err == nil:
			out[e.Name()] = r
		case errors.Is(err, fs.ErrNotExist):
			err = os.RemoveAll(path)
		default:
			slog.Error("put aside an execution whose record can't be read", "dir", path, "err", err)
			err = durable.Rename(path, path+unreadableSuffix)
		}
		if err != nil {
			return nil, fmt.Errorf("read the executions of this node: %w", err)
		}
	}
	return out, nil
}
