package e2b

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"

	space "github.com/space-platform/space"
	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

const (
	// maxForks bounds the sandboxes of one fork, as the platform does.
	maxForks = 100
	// unnamed begins the names of snapshots that their makers gave none: with a name the platform keeps them when their sandbox is gone.
	unnamed = "e2b-"
)

// begin orders a sandbox from a template or, if there's none of that name, from a snapshot. With a key the same order makes the same one.
func (r *request) begin(in client.SandboxCreate, key string) (client.Operation, error) {
	op, err := r.order(in, key)
	switch {
	case is(err, space.CodeTemplateNotReady): // who waits for the sandbox waits for the template as well
		s, err := r.platform.CreateSandbox(r.Context(), in)
		return client.Operation{Status: api.OperationStatusSucceeded, Sandbox: &s}, err
	case !is(err, space.CodeNotFound):
		return op, err
	}
	snapshot, other := r.platform.GetSnapshot(r.Context(), in.Template)
	if is(other, space.CodeNotFound, space.CodeInvalid) {
		return op, refuse(http.StatusNotFound, "template %q doesn't exist", space.Clip(in.Template))
	}
	if other != nil {
		return op, other
	}
	in.Template, in.Snapshot = "", snapshot.Id
	return r.order(in, key)
}

func (r *request) order(in client.SandboxCreate, key string) (client.Operation, error) {
	if key == "" {
		return r.platform.BeginCreateSandbox(r.Context(), in)
	}
	s, err := r.platform.RepeatCreateSandbox(r.Context(), in, key)
	return client.Operation{Status: api.OperationStatusSucceeded, Sandbox: &s}, err
}

// snapshotInfo is a snapshot as SDKs know it.
type snapshotInfo struct {
	SnapshotID string   `json:"snapshotID"`
	Names      []string `json:"names"`
}

func renderSnapshot(s client.Snapshot) snapshotInfo {
	out := snapshotInfo{SnapshotID: s.Id, Names: []string{}}
	if s.Name != nil {
		out.SnapshotID = *s.Name
		if !strings.HasPrefix(*s.Name, unnamed) {
			out.Names = []string{*s.Name}
		}
	}
	return out
}

func (f *Facade) createSnapshot(w http.ResponseWriter, r *request) error {
	var in struct {
		Name   string `json:"name"`
		Memory *bool  `json:"memory"`
	}
	if err := r.read(&in); err != nil {
		return err
	}
	s, err := r.living(r.Context())
	if err != nil {
		return notFoundWhileKilled(err, r)
	}
	name := templateName(in.Name)
	if strings.HasPrefix(name, unnamed) {
		return refuse(http.StatusBadRequest, "name: names that begin with %q are the platform's own", unnamed)
	}
	if name == "" {
		name = unnamed + strings.ToLower(rand.Text())
	}
	made, err := r.platform.CreateSnapshot(r.Context(), s.Id, client.SnapshotCreate{Name: &name, Kind: snapshotKind(in.Memory)})
	if err != nil {
		return err
	}
	answer(w, http.StatusCreated, renderSnapshot(made))
	return nil
}

// snapshotKind is the platform's, for whether there's to be memory in it; who doesn't say gets the platform's usual one.
func snapshotKind(memory *bool) *api.SnapshotCreateKind {
	kind := api.SnapshotCreateKindFull
	switch {
	case memory == nil:
		return nil
	case !*memory:
		kind = api.SnapshotCreateKindDisk
	}
	return &kind
}

// listSnapshots lists those that were asked for: what suspends and forks have made isn't theirs to use.
func (f *Facade) listSnapshots(w http.ResponseWriter, r *request) error {
	q := r.URL.Query()
	sandbox := ""
	if id := q.Get("sandboxID"); id != "" {
		var err error
		if sandbox, err = sandboxID(id); err != nil {
			return err
		}
	}
	limit := maxPage
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return refuse(http.StatusBadRequest, "limit is %q: it must be 1 to %d", space.Clip(text), maxPage)
		}
		limit = n
	}
	out, after := []snapshotInfo{}, q.Get("nextToken")
	last := ""
	for s, err := range r.platform.ListSnapshots(r.Context(), sandbox) {
		switch {
		case err != nil:
			return err
		case after != "":
			if s.Id == after {
				after = ""
			}
			continue
		case s.Name == nil || s.Purpose != api.SnapshotPurposeAsked || s.State != api.SnapshotStateReady, q.Get("name") != "" && templateName(q.Get("name")) != *s.Name:
			continue
		}
		if len(out) == limit {
			w.Header().Set("X-Next-Token", last)
			break
		}
		out, last = append(out, renderSnapshot(s)), s.Id
	}
	answer(w, http.StatusOK, out)
	return nil
}

func (f *Facade) deleteSnapshot(w http.ResponseWriter, r *request, name string) error {
	err := r.platform.DeleteSnapshot(r.Context(), templateName(name))
	switch {
	case is(err, space.CodeNotFound, space.CodeInvalid):
		return refuse(http.StatusNotFound, "template or snapshot %q doesn't exist", space.Clip(name))
	case is(err, space.CodeConflict):
		return refuse(http.StatusBadRequest, "%s", understand(r.Context(), err).Message)
	case err != nil:
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// forked is one sandbox of a fork, or why there's none.
type forked struct {
	Sandbox *sandbox `json:"sandbox,omitempty"`
	Error   *problem `json:"error,omitempty"`
}

func (f *Facade) forkSandbox(w http.ResponseWriter, r *request) error {
	var in struct {
		Timeout *int `json:"timeout"`
		Count   *int `json:"count"`
	}
	if err := r.read(&in); err != nil {
		return err
	}
	timeout, err := checkTimeout(in.Timeout, 1)
	if err != nil {
		return err
	}
	count := 1
	if in.Count != nil {
		count = *in.Count
	}
	if count < 1 || count > maxForks {
		return refuse(http.StatusBadRequest, "count is %d: it must be 1 to %d", count, maxForks)
	}
	s, err := r.living(r.Context())
	if err != nil {
		return notFoundWhileKilled(err, r)
	}
	made, err := r.platform.ForkSandbox(r.Context(), s.Id, client.SandboxFork{
		Count: &count, Lifetime: &client.Lifetime{Seconds: &timeout, OnExpiry: action(s)},
	})
	if err != nil && len(made) == 0 {
		return err
	}
	out := []forked{}
	for _, child := range made {
		opened, err := f.open(r.Context(), r, child)
		if err != nil {
			out = append(out, forked{Error: understand(r.Context(), err)})
			continue
		}
		out = append(out, forked{Sandbox: &opened})
	}
	if err == nil && len(made) < count {
		err = refuse(http.StatusNotFound, "the sandbox was deleted meanwhile")
	}
	for range count - len(made) { // those that never came to run don't stay
		out = append(out, forked{Error: understand(r.Context(), err)})
	}
	answer(w, http.StatusCreated, out)
	return nil
}
