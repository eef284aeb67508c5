package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sandboxJSON = `{"id":"sbx_1","template":"base","state":"running","execution":{"id":"exe_1","epoch":1,"node":"n"},"vcpus":1,"memory_mb":512,
"disk_mb":2048,"metadata":{},"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"}`

func operationJSON(status, rest string) string {
	return fmt.Sprintf(`{"id":"op_1","kind":"create_sandbox","status":%q,"created_at":"2026-01-02T03:04:05Z","sandbox":%s%s}`, status, sandboxJSON, rest)
}

func TestCreateWaitsAndIsRepeatedWithTheSameKey(t *testing.T) {
	var keys, bodies []string
	polls := 0
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/sandboxes", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		keys, bodies = append(keys, r.Header.Get("Idempotency-Key")), append(bodies, string(b))
		if len(keys) == 1 {
			problem(503, "unavailable")(w, r)
			return
		}
		w.WriteHeader(202)
		io.WriteString(w, operationJSON("running", ""))
	})
	mux.HandleFunc("GET /v1/operations/op_1", func(w http.ResponseWriter, r *http.Request) {
		if polls++; polls == 1 {
			io.WriteString(w, operationJSON("running", ""))
			return
		}
		io.WriteString(w, operationJSON("succeeded", ""))
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	got, err := mustNew(t, s.URL).CreateSandbox(t.Context(), SandboxCreate{Template: "base"})
	if err != nil || got.Id != "sbx_1" || polls != 2 {
		t.Errorf("got %+v, %v after %d polls; want sbx_1 after 2", got, err, polls)
	}
	if len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] || bodies[0] != bodies[1] {
		t.Errorf("tries with keys %q and bodies %q, want two that are the same", keys, bodies)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	failed := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(201)
		io.WriteString(w, operationJSON("failed", `,"error":{"type":"","title":"No room","status":503,"code":"capacity_exhausted"}`))
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    Error
	}{
		"problem":   {problem(422, "shape_unavailable"), Error{Code: "shape_unavailable", Detail: "d", Status: 422, RequestID: "req_1"}},
		"operation": {failed, Error{Code: "capacity_exhausted", Detail: "No room"}},
		"a proxy": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", 418) },
			Error{Code: "unexpected_answer", Status: 418, Detail: "POST /v1/sandboxes answered 418 I'm a teapot: <html>"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(c.handler)
			defer s.Close()
			_, err := mustNew(t, s.URL).CreateSandbox(t.Context(), SandboxCreate{Template: "base"})
			var got *Error
			if !errors.As(err, &got) || *got != c.want {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
		})
	}
}

func TestListFollowsPages(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if want := []string{"a=1", "b=x=y"}; !slices.Equal(q["metadata"], want) || !slices.Equal(q["state"], []string{"running", "stopped"}) {
			t.Errorf("asked for %v", q)
		}
		switch q.Get("cursor") {
		case "":
			fmt.Fprintf(w, `{"items":[%s],"next_cursor":"two"}`, sandboxJSON)
		case "two":
			fmt.Fprintf(w, `{"items":[%s,%s]}`, strings.Replace(sandboxJSON, "sbx_1", "sbx_2", 1), strings.Replace(sandboxJSON, "sbx_1", "sbx_3", 1))
		}
	}))
	defer s.Close()
	var got []string
	for sandbox, err := range mustNew(t, s.URL).ListSandboxes(t.Context(), SandboxFilter{
		Metadata: map[string]string{"b": "x=y", "a": "1"}, States: []SandboxState{"running", "stopped"},
	}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, sandbox.Id)
	}
	if diff := cmp.Diff([]string{"sbx_1", "sbx_2", "sbx_3"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestKeyDoesNotFollowRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a request came: %v", r.Header) }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	if _, err := mustNew(t, s.URL).Node(t.Context()); codeIn(err) != "unexpected_answer" {
		t.Errorf("got %v, want unexpected_answer", err)
	}
}

func TestAddressIsChecked(t *testing.T) {
	for _, a := range []string{"", "localhost:7700", "ftp://host", "http://", "http://a b"} {
		if _, err := New(a, ""); err == nil {
			t.Errorf("%q was accepted", a)
		}
	}
}
