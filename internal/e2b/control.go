package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

// maxDocument bounds a document that an SDK sends, in bytes: a template's steps are the longest.
const maxDocument = 2 << 20

// request is one call of the control API, by a key.
type request struct {
	*http.Request
	key      string
	platform *client.Client
}

// handler answers a call: it sends the answer, or returns why not.
type handler func(w http.ResponseWriter, r *request) error

// Control serves the control API.
func (f *Facade) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		if err := f.Reaches(r.Context()); err != nil {
			fail(w, r, err)
			return
		}
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("PUT /uploads/{upload}", f.putUpload)
	for pattern, h := range f.calls() {
		mux.HandleFunc(pattern, f.keyed(h))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, refuse(http.StatusNotFound, "%s %s: there's no such call here; docs/e2b.md lists what this platform has of E2B's API", r.Method, space.Clip(r.URL.Path)))
	})
	inner := checkVersion(mux)
	return observe(recovered(inner), func(r *http.Request) string { _, pattern := mux.Handler(r); return pattern })
}

// calls are those that need a key.
func (f *Facade) calls() map[string]handler {
	return map[string]handler{
		"POST /sandboxes":                        f.createSandbox,
		"POST /v2/sandboxes":                     f.createSandbox,
		"GET /sandboxes":                         f.listRunning,
		"GET /v2/sandboxes":                      f.listSandboxes,
		"GET /sandboxes/{id}":                    f.getSandbox,
		"DELETE /sandboxes/{id}":                 f.killSandbox,
		"POST /sandboxes/{id}/connect":           f.connectSandbox,
		"POST /v2/sandboxes/{id}/connect":        f.connectSandbox,
		"POST /sandboxes/{id}/resume":            f.resumeSandbox,
		"POST /sandboxes/{id}/timeout":           f.setTimeout,
		"POST /sandboxes/{id}/refreshes":         f.refreshSandbox,
		"POST /sandboxes/{id}/pause":             f.pauseSandbox,
		"GET /sandboxes/{id}/metrics":            f.getMetrics,
		"GET /sandboxes/metrics":                 lacks("metrics of many sandboxes at once"),
		"GET /templates/defaults":                lacks("templates of everybody's"),
		"PATCH /templates/{rest...}":             lacks("templates that are shared"),
		"PATCH /v2/templates/{rest...}":          lacks("templates that are shared"),
		"PUT /sandboxes/{id}/network":            lacks("network rules of a sandbox"),
		"GET /sandboxes/{id}/logs":               lacks("logs of a sandbox"),
		"GET /v2/sandboxes/{id}/logs":            lacks("logs of a sandbox"),
		"POST /sandboxes/{id}/snapshots":         f.createSnapshot,
		"GET /snapshots":                         f.listSnapshots,
		"POST /sandboxes/{id}/fork":              f.forkSandbox,
		"POST /v3/templates":                     f.createTemplate,
		"POST /v2/templates":                     f.createTemplate,
		"GET /templates":                         f.listTemplates,
		"GET /v2/templates":                      f.listTemplates,
		"GET /templates/{rest...}":               f.getTemplates,
		"DELETE /templates/{rest...}":            f.deleteTemplates,
		"POST /templates/tags":                   f.assignTags,
		"DELETE /templates/tags":                 f.removeTags,
		"POST /v2/templates/{id}/builds/{build}": f.startBuild,
		"/volumes":                               lacks("volumes"),
		"/volumes/{rest...}":                     lacks("volumes"),
		"/volumecontent/{rest...}":               lacks("volumes"),
		"/secrets":                               lacks("secrets"),
		"/secrets/{rest...}":                     lacks("secrets"),
		"/teams":                                 lacks("teams"),
		"/teams/{rest...}":                       lacks("teams"),
	}
}

func lacks(what string) handler {
	return func(http.ResponseWriter, *request) error { return unsupported(what) }
}

// keyed gives a call its key, which the platform judges.
func (f *Facade) keyed(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-API-Key")
		if key == "" {
			fail(w, r, refuse(http.StatusUnauthorized, "the API key is missing: set E2B_API_KEY to a key of this platform ('space e2b env' prints one)"))
			return
		}
		c, err := f.platform(key)
		if err == nil {
			err = h(w, &request{Request: r, key: key, platform: c})
		}
		if err != nil {
			fail(w, r, err)
		}
	}
}

// recovered turns a panic into an answer of the form that SDKs read.
func recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				if v != http.ErrAbortHandler {
					reportPanic(r.Context(), v)
					fail(w, r, &problem{Code: http.StatusInternalServerError, Message: "an internal error; the operator's log has the cause", ErrorCode: "internal_server_error"})
				}
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// read reads a call's document. Fields that aren't known are ignored, as the SDKs expect; no document at all is an empty one.
func (r *request) read(into any) error {
	body := http.MaxBytesReader(nil, r.Body, maxDocument)
	b, err := io.ReadAll(body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return refuse(http.StatusRequestEntityTooLarge, "the document is longer than %d bytes", maxDocument)
	case err != nil:
		return refuse(http.StatusBadRequest, "the document couldn't be read whole")
	case len(strings.TrimSpace(string(b))) == 0:
		return nil
	}
	if err := json.Unmarshal(b, into); err != nil {
		return refuse(http.StatusBadRequest, "the document isn't what this call takes: %v", err)
	}
	return nil
}

// sandbox is the platform's id of the sandbox in a call's path.
func (r *request) sandbox() (string, error) { return sandboxID(r.PathValue("id")) }

// rest is what follows /templates/ in a call's path, as it came: some SDKs escape the slashes of a name and some don't.
func (r *request) rest() string {
	_, rest, _ := strings.Cut(r.URL.EscapedPath(), "/templates/")
	return rest
}

// unescape reads one part of a path; what can't be read stays as it is.
func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// detached is a context for what must be done although the client may have gone.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), detachedTime)
}
