package upload

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"regexp"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
)

// Upload says what is to come.
type Upload struct {
	ID       string // upl_…
	MaxBytes int64
	SHA256   string // wanted, in lower-case hex; "" for any

	Project      string // prj_…, whose it is
	ProjectBytes int64  // that the project's uploads may have together
}

// Next returns the next bytes, and whether they are the last ones. An error breaks the upload off.
type Next func() (data []byte, end bool, err error)

var sumRE = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Put takes an upload's bytes and returns when they are durable. It takes an older one's place, unless that is being used. When it
// fails nothing is left of it. Errors are space.Errors, or the one that next returned.
func (s *Store) Put(ctx context.Context, u Upload, next Next) (File, error) {
	if err := u.check(); err != nil {
		return File{}, err
	}
	select {
	case s.puts <- struct{}{}:
		defer func() { <-s.puts }()
	default:
		return File{}, space.Errorf(space.CodeUnavailable, "%d uploads come in already; try again", maxPuts)
	}
	if err := s.admit(u.ID); err != nil {
		return File{}, err
	}
	p := put{store: s, upload: u, sum: sha256.New(), name: space.HostLabel(u.ID) + "." + rand.Text()}
	defer p.giveBack()
	f, err := p.receive(ctx, next)
	if err == nil {
		err = p.publish(f)
	}
	if err != nil {
		os.Remove(s.path(p.name))
		return File{}, err
	}
	return f, nil
}

func (u Upload) check() error {
	if err := space.CheckID(space.PrefixUpload, u.ID); err != nil {
		return space.FieldErrorf("id", "%s", err)
	}
	if err := space.CheckID(space.PrefixProject, u.Project); err != nil {
		return space.FieldErrorf("project", "%s", err)
	}
	switch {
	case u.MaxBytes <= 0:
		return space.FieldErrorf("max_bytes", "%d isn't a limit", u.MaxBytes)
	case u.SHA256 != "" && !sumRE.MatchString(u.SHA256):
		return space.FieldErrorf("sha256", "not a digest in lower-case hex")
	}
	return nil
}

// admit says why an upload can't come now.
func (s *Store) admit(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.uploads[id]
	switch {
	case ok && old.uses > 0:
		return space.Errorf(space.CodeConflict, "upload %s is being used by a build", id)
	case !ok && len(s.uploads) >= maxCount:
		return space.Errorf(space.CodeCapacity, "the node has %d uploads, which is its limit", maxCount)
	}
	return nil
}

// put is an upload that comes in.
type put struct {
	store    *Store
	upload   Upload
	name     string // of its file
	sum      hash.Hash
	bytes    int64
	reserved int64
}

// receive writes the bytes to a file and syncs it.
func (p *put) receive(ctx context.Context, next Next) (File, error) {
	f, err := os.OpenFile(p.store.path(p.name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return File{}, fmt.Errorf("stage an upload: %w", err)
	}
	defer f.Close()
	for end := false; !end; {
		var data []byte
		if ctx.Err() != nil {
			return File{}, context.Cause(ctx)
		}
		if data, end, err = next(); err != nil {
			return File{}, err
		}
		if err := p.add(f, data); err != nil {
			return File{}, err
		}
	}
	if err := f.Sync(); err != nil {
		return File{}, fmt.Errorf("stage an upload: %w", err)
	}
	sum := hex.EncodeToString(p.sum.Sum(nil))
	if p.upload.SHA256 != "" && sum != p.upload.SHA256 {
		return File{}, space.FieldErrorf("sha256", "the bytes that came have the digest %s, not %s", sum, p.upload.SHA256)
	}
	return File{Path: p.store.path(p.name), Bytes: p.bytes, SHA256: sum}, nil
}

func (p *put) add(f *os.File, data []byte) error {
	limit := min(p.upload.MaxBytes, MaxBytes)
	if p.bytes += int64(len(data)); p.bytes > limit {
		return space.Errorf(space.CodeTooLarge, "the upload has more than %d bytes", limit)
	}
	if err := p.reserve(); err != nil {
		return err
	}
	p.sum.Write(data)
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("stage an upload: %w", err)
	}
	return nil
}

// reserveStep is how many bytes are reserved at once.
const reserveStep = 16 << 20

// reserve makes sure that there is room for the bytes so far, in the project's share and on the node.
func (p *put) reserve() error {
	more := p.bytes - p.reserved
	if more <= 0 {
		return nil
	}
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := min(p.upload.ProjectBytes, maxProject)
	room := limit - s.ofProject(p.upload.Project, p.upload.ID)
	if more > room {
		return space.Errorf(space.CodeQuotaExceeded, "the project's uploads may have %d bytes together, and %d of them are taken; delete some, or wait: each goes within a day",
			limit, limit-room-p.reserved)
	}
	step := min(max(more, reserveStep), room)
	if s.total()+step > maxTotal || s.free() < step {
		return space.Errorf(space.CodeCapacity, "the node has no room for more uploads; each goes within a day")
	}
	p.reserved += step
	s.coming[p.upload.Project] += step
	return nil
}

// ofProject is how many bytes a project's uploads have and are about to have, but for one that is replaced. mu is held.
func (s *Store) ofProject(project, replaced string) int64 {
	sum := s.coming[project]
	for id, r := range s.uploads {
		if r.Project == project && id != replaced {
			sum += r.Bytes
		}
	}
	return sum
}

// total is how many bytes all uploads have and are about to have. mu is held.
func (s *Store) total() (sum int64) {
	for _, n := range s.coming {
		sum += n
	}
	for _, r := range s.uploads {
		sum += r.Bytes
	}
	return sum
}

func (p *put) giveBack() {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.coming[p.upload.Project] -= p.reserved; s.coming[p.upload.Project] == 0 {
		delete(s.coming, p.upload.Project)
	}
}

// publish writes the record, which is the moment from which on the upload is there.
func (p *put) publish(f File) error {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.uploads[p.upload.ID]
	if ok && old.uses > 0 {
		return space.Errorf(space.CodeConflict, "upload %s is being used by a build", p.upload.ID)
	}
	r := &record{File: p.name, Bytes: f.Bytes, SHA256: f.SHA256, Project: p.upload.Project, At: s.now()}
	if err := durable.SyncDir(s.dir); err != nil { // the file's name
		return fmt.Errorf("stage an upload: %w", err)
	}
	if err := durable.WriteJSON(s.path(recordName(p.upload.ID)), r, 0o600); err != nil {
		return fmt.Errorf("stage an upload: %w", err)
	}
	s.uploads[p.upload.ID] = r
	s.changed()
	if ok {
		os.Remove(s.path(old.File)) // what stays goes with the next Open
	}
	return nil
}
