package cli

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
)

// builds is how the fake makes templates: the log repeats the steps, with what the archives of copies have in them.
func (f *fake) builds(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/templates", f.build)
	mux.HandleFunc("GET /v1/templates/{name}/logs", f.log)
	mux.HandleFunc("GET /v1/operations/{id}", f.operation)
	mux.HandleFunc("POST /v1/uploads", func(w http.ResponseWriter, r *http.Request) {
		var in gen.UploadCreate
		json.NewDecoder(r.Body).Decode(&in)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.uploads = append(f.uploads, deref(in.Sha256))
		id := fmt.Sprint("upl_", len(f.uploads)-1)
		answer(w, 201, gen.Upload{Id: id, Url: f.URL + "/v1/uploads/" + id, Token: "spaceupl_1", ExpiresAt: epoch})
	})
	mux.HandleFunc("PUT /v1/uploads/{id}", f.upload)
	mux.HandleFunc("GET /v1/uploads", func(w http.ResponseWriter, _ *http.Request) {
		sum := strings.Repeat("0a", 32)
		answer(w, 200, gen.UploadPage{Items: []gen.UploadInfo{
			{Id: "upl_used", Bytes: 3 << 30, Sha256: &sum, InUse: true, CreatedAt: epoch, UsableUntil: epoch.Add(24 * time.Hour)},
			{Id: "upl_spare", Bytes: 5000, CreatedAt: epoch, UsableUntil: epoch.Add(24 * time.Hour)},
		}})
	})
	mux.HandleFunc("DELETE /v1/uploads/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "upl_used" {
			refuse(w, 409, "conflict", "a build uses the upload")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// upload takes an upload whose sum is the one that was said, if one was.
func (f *fake) upload(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	sum := sha256.Sum256(b)
	f.mu.Lock()
	defer f.mu.Unlock()
	at, _ := strconv.Atoi(strings.TrimPrefix(r.PathValue("id"), "upl_"))
	if said := f.uploads[at]; err != nil || said != "" && said != hex.EncodeToString(sum[:]) {
		refuse(w, 400, "validation", "the sum is another one")
		return
	}
	f.uploads[at] = listing(b)
	w.WriteHeader(http.StatusNoContent)
}

// listing is what an archive has in it; of what is none, the length.
func listing(b []byte) string {
	var names []string
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if err != nil {
			return cmp.Or(strings.Join(names, " "), fmt.Sprint(len(b), " bytes"))
		}
		names = append(names, fmt.Sprintf("%s:%d", h.Name, h.Size))
	}
}

func (f *fake) build(w http.ResponseWriter, r *http.Request) {
	var in gen.TemplateCreate
	json.NewDecoder(r.Body).Decode(&in)
	f.mu.Lock()
	f.made = in
	f.mu.Unlock()
	name := deref(in.Name)
	if in.Recipe != nil {
		name = string(*in.Recipe)
	}
	t, step := template(name), "unpacking packages"
	t.State, t.Progress = gen.TemplateStateBuilding, &step
	answer(w, 202, gen.Operation{Id: "op_build_" + name, Kind: gen.OperationKindBuildTemplate, Status: gen.OperationStatusRunning, Template: &t, CreatedAt: epoch})
}

func (f *fake) operation(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("id") == "op_slow" {
		f.told <- "WAIT"
		<-r.Context().Done()
		return
	}
	if r.PathValue("id") == "op_build_endless" {
		select {
		case f.started <- struct{}{}:
		default: // it was told
		}
		<-r.Context().Done()
		return
	}
	if r.PathValue("id") == "op_build_doomed" {
		detail, id := "step 2: exit 9", "req_9"
		answer(w, 200, gen.Operation{Id: "op_build_doomed", Kind: gen.OperationKindBuildTemplate, Status: gen.OperationStatusFailed, CreatedAt: epoch,
			Error: &gen.Problem{Code: "guest_error", Detail: &detail, RequestId: &id}})
		return
	}
	t := template(cmp.Or(strings.TrimPrefix(r.PathValue("id"), "op_build_"), "mini"))
	answer(w, 200, gen.Operation{Id: r.PathValue("id"), Kind: gen.OperationKindBuildTemplate, Status: gen.OperationStatusSucceeded, Template: &t, CreatedAt: epoch})
}

// log streams a line a connection, to show that a client comes back, and the end with the last.
func (f *fake) log(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	steps := deref(f.made.Steps)
	if last < len(steps) {
		step := steps[last]
		text, _ := json.Marshal(step)
		if step.Copy != nil {
			at, _ := strconv.Atoi(strings.TrimPrefix(step.Copy.Upload, "upl_"))
			text = fmt.Appendf(nil, "%s to %s for %s", f.uploads[at], step.Copy.To, deref(step.Copy.Owner))
		}
		number := last + 1
		line, _ := json.Marshal(gen.LogLine{Number: int64(number), At: epoch, Step: &number, Text: string(text)})
		fmt.Fprintf(w, "event: log\nid: %d\ndata: %s\n\nevent: ended\ndata: {\"reason\":\"interrupted\"}\n\n", number, line)
		return
	}
	if deref(f.made.StartCommand) == "fail" {
		fmt.Fprint(w, "event: end\ndata: {\"state\":\"failed\",\"error\":{\"code\":\"validation\",\"status\":400,\"title\":\"\",\"type\":\"\",\"detail\":\"step 2 failed\"}}\n\n")
		return
	}
	fmt.Fprint(w, "event: end\ndata: {\"state\":\"ready\"}\n\n")
}
