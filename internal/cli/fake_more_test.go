package cli

import (
	"encoding/json"
	"fmt"
	"net/http"

	gen "github.com/space-platform/space/api/gen/http"
)

// more is what the fake has beside the life of sandboxes and sessions.
func (f *fake) more(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/sandboxes/{id}/sessions", f.listSessions)
	mux.HandleFunc("GET /v1/sandboxes/{id}/sessions/{session}", f.getSession)
	mux.HandleFunc("POST /v1/sandboxes/{id}/sessions/{session}/attachments", func(w http.ResponseWriter, r *http.Request) {
		answer(w, 201, f.attachment(r.PathValue("session")))
	})
	mux.HandleFunc("GET /v1/sandboxes/{id}/metrics", func(w http.ResponseWriter, r *http.Request) {
		m := gen.Metrics{At: epoch, MemoryBytes: 100 << 20, DiskBytes: 5 << 20}
		if r.PathValue("id") == "sbx_1" {
			received, sent := int64(30<<20), int64(4<<10)
			m.NetworkReceivedBytes, m.NetworkSentBytes = &received, &sent
		}
		answer(w, 200, m)
	})
	mux.HandleFunc("POST /v1/sandboxes/{id}/file-urls", f.signURL)
	mux.HandleFunc("DELETE /v1/sandboxes/{id}/file-urls", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /v1/sandboxes/{id}/files/stat", func(w http.ResponseWriter, r *http.Request) {
		answer(w, 200, gen.FileEntry{Path: "/home/" + r.URL.Query().Get("user"), Type: gen.FileEntryTypeDirectory, Mode: "0755", ModifiedAt: epoch})
	})
	for path, kind := range map[string]string{"users/{id}": "user", "keys/{id}": "key", "projects/{id}": "project"} {
		mux.HandleFunc("DELETE /v1/"+path, func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, 404, "not_found", "the "+kind+" does not exist")
		})
	}
	mux.HandleFunc("GET /v1/roles", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[{"role":"viewer","permissions":["sandboxes:read","templates:read"]}]}`)
	})
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "event: sandbox.created\nid: 8\ndata: {\"id\":\"8\",\"type\":\"sandbox.created\",\"at\":\"2026-01-02T03:04:05Z\",\"sandbox\":\"after_%s\"}\n\n", r.Header.Get("Last-Event-ID"))
		fmt.Fprint(w, "event: ended\ndata: {\"reason\":\"key_ended\"}\n\n")
	})
}

func (f *fake) attachment(session string) gen.Attachment {
	return gen.Attachment{Token: "spaceatt_1", Url: f.URL + "/v1/sessions/" + session + "/attach", ExpiresAt: epoch}
}

func (f *fake) listSessions(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page := gen.SessionPage{Items: []gen.Session{}}
	for id, in := range f.sessions {
		s := gen.Session{Id: id, Sandbox: r.PathValue("id"), State: gen.SessionStateStarted, Argv: in.Argv, CreatedAt: epoch}
		if deref(in.Argv)[0] == "fail" {
			code := 3
			s.State, s.Code = gen.SessionStateEnded, &code
		}
		page.Items = append(page.Items, s)
	}
	answer(w, 200, page)
}

func (f *fake) getSession(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	in, ok := f.sessions[r.PathValue("session")]
	if !ok {
		refuse(w, 404, "not_found", "the session does not exist")
		return
	}
	answer(w, 200, gen.Session{Id: r.PathValue("session"), Sandbox: r.PathValue("id"), State: gen.SessionStateStarted, Argv: in.Argv, Tty: in.Tty, CreatedAt: epoch})
}

func (f *fake) signURL(w http.ResponseWriter, r *http.Request) {
	var in gen.FileURLCreate
	json.NewDecoder(r.Body).Decode(&in)
	answer(w, 201, gen.FileURL{Url: fmt.Sprintf("https://edge/%s%s?for=%d&user=%s", in.Operation, in.Path, deref(in.ExpiresInSeconds), deref(in.User)), ExpiresAt: epoch})
}
