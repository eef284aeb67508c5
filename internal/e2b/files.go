package e2b

import (
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strings"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

// maxParts bounds the files of one request.
const maxParts = 10_000

// written is a file that was written. Python's SDK 2.21.1 fails on any other field.
type written struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Type string `json:"type"`
}

// enterFiles finds whom a request for a file opens: a token, or what a URL was signed with.
func (f *Facade) enterFiles(r *http.Request, operation string) (guest, error) {
	q := r.URL.Query()
	sandbox, err := named(r)
	if err != nil {
		return guest{}, err
	}
	if token := r.Header.Get(headerToken); token != "" {
		a, ok := parseAccess(token)
		if !ok || sandbox != "" && sandbox != a.sandbox {
			return guest{}, errForeign
		}
		return f.guest(a, cmp.Or(q.Get("username"), userOf(r)))
	}
	s := signed{path: q.Get("path"), operation: operation, user: q.Get("username"), expiration: q.Get("signature_expiration"), signature: q.Get("signature")}
	if s.signature == "" {
		return guest{}, refuse(http.StatusUnauthorized, "missing signature query parameter")
	}
	now := time.Now()
	a, err := f.tokens.signer(s, sandbox, now)
	if err != nil {
		return guest{}, err
	}
	if s.expired(now) {
		return guest{}, refuse(http.StatusUnauthorized, "signature is already expired")
	}
	return f.guest(a, s.user) // whom it was signed for, whatever else the request says
}

func (f *Facade) getFile(w http.ResponseWriter, r *http.Request) {
	g, err := f.enterFiles(r, operationRead)
	if err != nil {
		g.failFile(w, r, err)
		return
	}
	if !takesIdentity(r.Header.Values("Accept-Encoding")) {
		g.failFile(w, r, refuse(http.StatusNotAcceptable, "files are sent as they are: accept the encoding identity"))
		return
	}
	resp, err := g.plane.FileContent(r.Context(), inGuest(r.URL.Query().Get("path")), r.Header, g.as())
	var e *client.Error
	if errors.As(err, &e) && e.Status == http.StatusNotModified {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if err != nil {
		g.failFile(w, r, err)
		return
	}
	defer resp.Body.Close()
	for _, name := range []string{"Content-Length", "Content-Range", "Content-Type", "Content-Disposition", "Last-Modified", "Etag", "Accept-Ranges"} {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.Header().Set("Vary", "Accept-Encoding")
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler) // a clean end would say that these are all bytes
	}
}

// takesIdentity tells whether a client takes bytes as they are: it does unless it says that it doesn't.
func takesIdentity(accept []string) bool {
	takes := true
	for _, coding := range words(accept) {
		name, weight, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";q=")
		zero := weight != "" && strings.Trim(weight, "0.") == ""
		switch name {
		case "identity":
			return !zero
		case "*":
			takes = !zero
		}
	}
	return takes
}

// failFile answers in the words of E2B's agent.
func (g guest) failFile(w http.ResponseWriter, r *http.Request, err error) {
	if g.plane != nil {
		err = g.settled(r.Context(), err)
	}
	var lost *goneError
	if errors.As(err, &lost) {
		fail(w, r, err)
		return
	}
	p := *understand(r.Context(), err)
	switch {
	case is(err, space.CodeConflict) && strings.Contains(p.Message, "a part of the path is not a directory") && r.Method == http.MethodGet:
		p.Code = http.StatusNotFound
	case is(err, space.CodeConflict, space.CodeForbidden):
		p.Code = http.StatusBadRequest
	case is(err, space.CodeGuest) && strings.Contains(p.Message, "full"):
		p.Code = http.StatusInsufficientStorage
	case is(err, space.CodeInvalid) && strings.HasPrefix(p.Message, "user"):
		p.Code = http.StatusUnauthorized
	}
	fail(w, r, &p)
}

func (f *Facade) postFiles(w http.ResponseWriter, r *http.Request) {
	g, err := f.enterFiles(r, operationWrite)
	if err != nil {
		g.failFile(w, r, err)
		return
	}
	out, err := g.write(r)
	if err != nil {
		g.failFile(w, r, err)
		return
	}
	answer(w, http.StatusOK, out)
}

// write writes what a request brings, in order. What was written before an error stays.
func (g guest) write(r *http.Request) ([]written, error) {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Metadata-") {
			return nil, unsupported("metadata of files")
		}
	}
	body, err := plainBody(r)
	if err != nil {
		return nil, err
	}
	target := r.URL.Query().Get("path")
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil || kind != "multipart/form-data" && kind != "application/octet-stream":
		return nil, refuse(http.StatusBadRequest, "Content-Type is %q: it must be multipart/form-data or application/octet-stream", space.Clip(r.Header.Get("Content-Type")))
	case kind == "multipart/form-data":
		return g.writeParts(r, multipart.NewReader(body, params["boundary"]), target)
	case target == "":
		return nil, refuse(http.StatusBadRequest, "path is required")
	}
	one, err := g.writeOne(r, target, body)
	if err != nil {
		return nil, err
	}
	return []written{one}, nil
}

// plainBody is a request's body without its encoding.
func plainBody(r *http.Request) (io.Reader, error) {
	switch e := r.Header.Get("Content-Encoding"); e {
	case "", "identity":
		return r.Body, nil
	case "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "the body isn't gzip, which its Content-Encoding says")
		}
		return z, nil
	default:
		return nil, refuse(http.StatusBadRequest, "Content-Encoding is %q: it must be gzip or identity", space.Clip(e))
	}
}

// writeParts writes the files of a form.
func (g guest) writeParts(r *http.Request, form *multipart.Reader, target string) ([]written, error) {
	out := []written{}
	seen := map[string]bool{}
	for {
		part, err := form.NextRawPart()
		if err == io.EOF { // and nothing around it: else the form has no end
			break
		}
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "the form can't be read: %v", err)
		}
		name, file, err := partNames(part.Header.Get("Content-Disposition"))
		if err != nil {
			return nil, err
		}
		if name != "file" {
			continue
		}
		if target != "" {
			file = target
		}
		if file == "" {
			return nil, refuse(http.StatusBadRequest, "a file has no name, and there's no path")
		}
		if seen[path.Clean(file)] || len(out) == maxParts {
			return nil, refuse(http.StatusBadRequest, "%s is there twice, or there are more than %d files", space.Clip(file), maxParts)
		}
		seen[path.Clean(file)] = true
		one, err := g.writeOne(r, file, part)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// partNames reads the field's name and the file's path off a part's header. A browser's way to write a quotation mark is %22; the standard library
// would drop the directories.
func partNames(disposition string) (name, file string, err error) {
	kind, params, err := mime.ParseMediaType(disposition)
	if err != nil || kind != "form-data" {
		return "", "", refuse(http.StatusBadRequest, "a part of the form has no usable Content-Disposition")
	}
	return params["name"], strings.NewReplacer("%22", `"`, "%0D", "\r", "%0A", "\n").Replace(params["filename"]), nil
}

func (g guest) writeOne(r *http.Request, target string, from io.Reader) (written, error) {
	read := &trackedReader{Reader: from}
	e, err := g.plane.WriteFile(r.Context(), inGuest(target), read, g.as())
	if err != nil && read.err != nil {
		return written{}, refuse(http.StatusBadRequest, "%s: its bytes couldn't be read whole", space.Clip(target))
	}
	if err != nil {
		return written{}, err
	}
	return written{Name: path.Base(e.Path), Path: e.Path, Type: "file"}, nil
}

// trackedReader knows whether what it reads has failed: then it's the client's fault, not the platform's.
type trackedReader struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (t *trackedReader) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
	}
	return n, err
}
