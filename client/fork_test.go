package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestForkReturnsThoseThatExist: a child that never came to run doesn't stay, and isn't named; why is the error.
func TestForkReturnsThoseThatExist(t *testing.T) {
	states := map[string]string{"sbx_2": "running", "sbx_3": "deleting", "sbx_4": "deleted", "sbx_5": "failed"}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/sandboxes/sbx_1/fork", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(202)
		io.WriteString(w, `{"id":"op_1","kind":"fork_sandbox","status":"running","created_at":"2026-01-02T03:04:05Z","children":["sbx_2","sbx_3","sbx_4","sbx_5"]}`)
	})
	mux.HandleFunc("GET /v1/operations/op_1", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"id":"op_1","kind":"fork_sandbox","status":"failed","created_at":"2026-01-02T03:04:05Z","error":{"type":"","title":"","status":409,"code":"snapshot_unusable"}}`)
	})
	mux.HandleFunc("GET /v1/sandboxes/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"id":%q,"state":%q}`, r.PathValue("id"), states[r.PathValue("id")])
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	got, err := mustNew(t, s.URL).ForkSandbox(t.Context(), "sbx_1", SandboxFork{})
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != "snapshot_unusable" || len(got) != 1 || got[0].Id != "sbx_2" {
		t.Errorf("%+v, %v", got, err)
	}
}
