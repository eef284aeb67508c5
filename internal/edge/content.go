package edge

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// preconditions on a write couldn't be kept while the file is written, so they aren't taken.
var preconditions = []string{"If-Match", "If-None-Match", "If-Unmodified-Since", "If-Modified-Since", "If-Range", "Content-Range"}

func (e *Edge) headFile(w *answer, r *request) error {
	path, err := r.query.path()
	if err != nil {
		return err
	}
	t, err := e.enterSandbox(r)
	if err != nil {
		return err
	}
	defer t.leave()
	entry, err := t.look(r, path)
	if err != nil {
		return err
	}
	describe(w, entry)
	if unchanged(r.Header, entry) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("Content-Length", strconv.FormatUint(entry.GetSize(), 10))
	w.WriteHeader(http.StatusOK)
	return nil
}

func (e *Edge) readFile(w *answer, r *request) error {
	path, err := r.query.path()
	if err != nil {
		return err
	}
	part, err := readRange(r.Header.Values("Range"))
	if err != nil {
		return err
	}
	t, err := e.enterSandbox(r)
	if err != nil {
		return err
	}
	defer t.leave()
	if part, err = t.settle(w, r, path, part); err != nil || w.begun {
		return err
	}
	c, m, err := t.open(r.Context(), &sandboxv1.Action{Action: &sandboxv1.Action_Read{Read: part.read(path)}})
	if err != nil {
		return ranged(err)
	}
	defer c.close()
	entry, err := entryOf(m)
	if err != nil {
		return err
	}
	return w.file(c, entry, part)
}

// settle looks at the file first if the request depends on how it is: then it answers that nothing has changed, or says which part is to be
// read.
func (t *target) settle(w *answer, r *request, path string, part span) (span, error) {
	if !part.suffix && r.Header.Get("If-None-Match") == "" && r.Header.Get("If-Modified-Since") == "" && (part.whole || r.Header.Get("If-Range") == "") {
		return part, nil
	}
	entry, err := t.look(r, path)
	if err != nil {
		return part, err
	}
	if unchanged(r.Header, entry) {
		describe(w, entry)
		w.WriteHeader(http.StatusNotModified)
		return part, nil
	}
	if !sameAs(r.Header, entry) {
		return span{whole: true}, nil
	}
	if part.suffix {
		from, to, err := part.of(entry.GetSize())
		return span{from: from, to: to}, w.noSuch(err, entry)
	}
	return part, nil
}

// look is how the file at a path is, through links, if it may be read.
func (t *target) look(r *request, path string) (*sandboxv1.Entry, error) {
	m, err := t.do(r.Context(), &sandboxv1.Action{Action: &sandboxv1.Action_Read{Read: &sandboxv1.Read{Path: path}}})
	if err != nil {
		return nil, err
	}
	return entryOf(m)
}

// file answers with the part of a file that comes from a call.
func (a *answer) file(c *call, entry *sandboxv1.Entry, part span) error {
	from, to, err := part.of(entry.GetSize())
	if err != nil {
		return a.noSuch(err, entry)
	}
	describe(a, entry)
	a.Header().Set("Content-Length", strconv.FormatUint(to-from, 10))
	if part.whole {
		a.WriteHeader(http.StatusOK)
	} else {
		a.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, entry.GetSize()))
		a.WriteHeader(http.StatusPartialContent)
	}
	return a.copy(c, to-from)
}

// copy passes on exactly n bytes of a call.
func (a *answer) copy(c *call, n uint64) error {
	for n > 0 {
		m, err := c.next(dataTime)
		if errors.Is(err, io.EOF) {
			return space.Errorf(space.CodeGuest, "%d bytes of the file didn't come", n)
		}
		if err != nil {
			return err
		}
		data := m.GetData()
		data = data[:min(uint64(len(data)), n)]
		if err := a.piece(data); err != nil {
			return err
		}
		n -= uint64(len(data))
	}
	return nil
}

// noSuch says of a range that the file doesn't have how long the file is.
func (a *answer) noSuch(err error, entry *sandboxv1.Entry) error {
	if space.CodeOf(err) == space.CodeRange {
		a.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", entry.GetSize()))
	}
	return err
}

// ranged turns the guest's word on an offset beyond the file into the client's.
func ranged(err error) error {
	var e *space.Error
	if errors.As(err, &e) && e.Code == space.CodeRange {
		return &space.Error{Code: e.Code, Field: "Range", Message: e.Message, Err: e}
	}
	return err
}

// describe says what a file is. Its bytes are a sandbox's, so no browser shall take them for a page of this origin.
func describe(a *answer, entry *sandboxv1.Entry) {
	h := a.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("ETag", entityTag(entry))
	h.Set("Last-Modified", entry.GetModified().AsTime().UTC().Format(http.TimeFormat))
	h.Set("Accept-Ranges", "bytes")
	h.Set("Cache-Control", "private, no-cache")
	keepOut(h, path.Base(entry.GetPath()))
}

// keepOut has browsers save an answer under a name and never show it.
func keepOut(h http.Header, name string) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	if d := mime.FormatMediaType("attachment", map[string]string{"filename": name}); d != "" {
		h.Set("Content-Disposition", d)
	} else {
		h.Set("Content-Disposition", "attachment")
	}
}

func (e *Edge) writeFile(w *answer, r *request) error {
	for _, name := range preconditions {
		if r.Header.Get(name) != "" {
			return space.FieldErrorf(name, "can't be kept while a file is written; leave it out")
		}
	}
	path, err := r.query.path()
	if err != nil {
		return err
	}
	mode, err := r.query.mode()
	if err != nil {
		return err
	}
	if _, asked := r.query["mode"]; asked && r.material == signedURL {
		return space.FieldErrorf("mode", "isn't part of what was signed")
	}
	write := &sandboxv1.Write{Path: path, Mode: mode, SizeHint: uint64(max(r.ContentLength, 0))}
	m, err := e.bring(w, r, &sandboxv1.Action{Action: &sandboxv1.Action_Write{Write: write}})
	if err != nil {
		return err
	}
	entry, err := entryOf(m)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if entry.GetCreated() {
		status = http.StatusCreated
	}
	return w.json(status, fileEntry(entry))
}

// bring does an action with the request's body as its upload, and returns its answer.
func (e *Edge) bring(w *answer, r *request, a *sandboxv1.Action) (*sandboxv1.CallResponse, error) {
	t, err := e.enterSandbox(r)
	if err != nil {
		return nil, err
	}
	defer t.leave()
	c := t.start(r.Context(), a)
	defer c.close()
	if err := pour(newBody(w, r, false), c.send); err != nil {
		return nil, err
	}
	return c.answer()
}

// pour sends a body piece by piece. It returns when the body was sent whole or the other side has answered before; an error means that the
// body broke off.
func pour(b *body, send func(data []byte, end bool) error) error {
	for {
		piece, last, err := b.next()
		if err != nil {
			return err
		}
		if send(piece, last) != nil || last {
			return nil
		}
	}
}
