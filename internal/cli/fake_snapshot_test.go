package cli

import (
	"encoding/json"
	"fmt"
	"net/http"

	gen "github.com/space-platform/space/api/gen/http"
)

// history is the verbs of a sandbox's past: each succeeds at once.
func (f *fake) history(mux *http.ServeMux) {
	for verb, state := range map[string]gen.SandboxState{
		"pause": "paused", "resume": "running", "suspend": "suspended", "restore": "running", "wake": "running", "rollback": "running",
	} {
		mux.HandleFunc("POST /v1/sandboxes/{id}/"+verb, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if s := f.find(w, r.PathValue("id")); s != nil {
				s.State = state
				s.Template = "base" + r.URL.Query().Get("snapshot") + r.URL.Query().Get("cold")
				answer(w, 200, f.done(gen.OperationKind(verb+"_sandbox"), s))
			}
		})
	}
	mux.HandleFunc("POST /v1/sandboxes/{id}/fork", f.fork)
	mux.HandleFunc("POST /v1/sandboxes/{id}/snapshots", f.snapshot)
	list := func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		answer(w, 200, gen.SnapshotPage{Items: append([]gen.Snapshot{}, f.snapshots...)})
	}
	mux.HandleFunc("GET /v1/snapshots", list)
	mux.HandleFunc("/v1/garbage", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		g := gen.Garbage{Items: append([]gen.Snapshot{}, f.snapshots[:1]...), Bytes: 20 << 20}
		if r.Method == http.MethodDelete {
			f.snapshots = f.snapshots[1:]
		}
		answer(w, 200, g)
	})
	mux.HandleFunc("GET /v1/sandboxes/{id}/snapshots", list)
	mux.HandleFunc("DELETE /v1/snapshots/{ref}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("ref") != "snp_1" {
			refuse(w, 404, "not_found", "the snapshot does not exist")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func (f *fake) done(kind gen.OperationKind, s *gen.Sandbox) gen.Operation {
	return gen.Operation{Id: "op_3", Kind: kind, Status: gen.OperationStatusSucceeded, Sandbox: s, CreatedAt: epoch}
}

func (f *fake) fork(w http.ResponseWriter, r *http.Request) {
	var in gen.SandboxFork
	json.NewDecoder(r.Body).Decode(&in)
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.find(w, r.PathValue("id"))
	if s == nil {
		return
	}
	source, children := *s, []string{}
	damaged := in.Metadata != nil && (*in.Metadata)["of"] == "damage" // all but the first never come to run
	for i := range *in.Count {
		child := source
		if damaged && i > 0 {
			child.State = gen.SandboxStateDeleting
		}
		child.Id, child.Parent = fmt.Sprintf("sbx_%d", len(f.sandboxes)+1), &gen.Parent{Sandbox: source.Id, Snapshot: "snp_0"}
		f.sandboxes, children = append(f.sandboxes, child), append(children, child.Id)
	}
	o := f.done(gen.OperationKindForkSandbox, &source)
	o.Children = &children
	if damaged {
		o.Status, o.Error = gen.OperationStatusFailed, &gen.Problem{Code: "snapshot_unusable"}
	}
	answer(w, 201, o)
}

func (f *fake) snapshot(w http.ResponseWriter, r *http.Request) {
	var in gen.SnapshotCreate
	json.NewDecoder(r.Body).Decode(&in)
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.find(w, r.PathValue("id"))
	if s == nil {
		return
	}
	bytes := int64(20 << 20)
	n := gen.Snapshot{Id: fmt.Sprintf("snp_%d", len(f.snapshots)+1), Name: in.Name, Sandbox: s.Id, Kind: gen.SnapshotKind(*in.Kind), Purpose: "asked", State: "ready",
		SizeBytes: &bytes, TakenAt: &epoch, CreatedAt: epoch}
	f.snapshots = append(f.snapshots, n)
	o := f.done(gen.OperationKindSnapshotSandbox, s)
	o.Snapshot = &n
	answer(w, 201, o)
}
