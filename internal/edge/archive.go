package edge

import (
	"errors"
	"io"
	"net/http"
	"path"

	space "github.com/space-platform/space"
	httpapi "github.com/space-platform/space/api/gen/http"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

func (e *Edge) readArchive(w *answer, r *request) error {
	dir, err := r.query.path()
	if err != nil {
		return err
	}
	c, m, err := e.begin(r, &sandboxv1.Action{Action: &sandboxv1.Action_ReadArchive{ReadArchive: &sandboxv1.ReadArchive{Path: dir}}})
	if err != nil {
		return err
	}
	defer c.close()
	h := w.Header()
	h.Set("Content-Type", "application/x-tar")
	h.Set("Cache-Control", "no-store")
	keepOut(h, path.Base(path.Clean("/"+dir))+".tar")
	w.WriteHeader(http.StatusOK)
	for m != nil {
		if err := w.piece(m.GetData()); err != nil {
			return err
		}
		if m, err = c.next(dataTime); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (e *Edge) writeArchive(w *answer, r *request) error {
	path, err := r.query.path()
	if err != nil {
		return err
	}
	if r.ContentLength == 0 && r.Header.Get("Content-Type") == "" { // an empty one with its type is an empty archive
		return space.Errorf(space.CodeInvalid, "the body is missing")
	}
	m, err := e.bring(w, r, &sandboxv1.Action{Action: &sandboxv1.Action_WriteArchive{WriteArchive: &sandboxv1.WriteArchive{Path: path}}})
	if err != nil {
		return err
	}
	u := m.GetUnpacked()
	if u == nil {
		return space.Errorf(space.CodeGuest, "the sandbox answered with something else than what it unpacked")
	}
	return w.json(http.StatusOK, httpapi.ArchiveUnpacked{Entries: signed(u.GetEntries()), Bytes: signed(u.GetBytes())})
}
