package edge

import (
	"errors"
	"io"
	"net/http"

	space "github.com/space-platform/space"
	httpapi "github.com/space-platform/space/api/gen/http"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// Limits of a directory's list.
const (
	maxDepth   = 64
	maxEntries = 10_000
)

func (e *Edge) statFile(w *answer, r *request) error {
	return e.aboutPath(w, r, func(path string) *sandboxv1.Action {
		return &sandboxv1.Action{Action: &sandboxv1.Action_Stat{Stat: &sandboxv1.Stat{Path: path}}}
	})
}

func (e *Edge) changeFile(w *answer, r *request) error {
	var in httpapi.FileChange
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	change, err := changeOf(in.Mode, in.Owner, in.Group)
	if err != nil {
		return err
	}
	return e.aboutPath(w, r, func(path string) *sandboxv1.Action {
		change.Path, change.Recursive = path, in.Recursive != nil && *in.Recursive
		return &sandboxv1.Action{Action: &sandboxv1.Action_Change{Change: change}}
	})
}

func changeOf(mode, owner, group *string) (*sandboxv1.Change, error) {
	out := &sandboxv1.Change{}
	if mode == nil && owner == nil && group == nil {
		return nil, space.FieldErrorf("mode", "is missing, and so are owner and group: there's nothing to change")
	}
	if mode != nil {
		bits, err := checkMode("mode", *mode)
		if err != nil {
			return nil, err
		}
		out.Mode = &bits
	}
	for _, name := range []struct {
		field  string
		value  *string
		target *string
	}{{"owner", owner, &out.Owner}, {"group", group, &out.Group}} {
		if name.value == nil {
			continue
		}
		if *name.value == "" {
			return nil, space.FieldErrorf(name.field, "is empty: a name or a number, or leave it out")
		}
		if err := space.CheckAccount(name.field, *name.value); err != nil {
			return nil, err
		}
		*name.target = *name.value
	}
	return out, nil
}

func (e *Edge) makeDirectory(w *answer, r *request) error {
	var in httpapi.DirectoryCreate
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	var mode *uint32
	if in.Mode != nil {
		bits, err := checkMode("mode", *in.Mode)
		if err != nil {
			return err
		}
		mode = &bits
	}
	if _, err := checkPath("path", in.Path); err != nil {
		return err
	}
	return e.oneEntry(w, r, &sandboxv1.Action{Action: &sandboxv1.Action_MakeDirectory{MakeDirectory: &sandboxv1.MakeDirectory{Path: in.Path, Mode: mode}}})
}

func (e *Edge) renameFile(w *answer, r *request) error {
	var in httpapi.FileRename
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	if _, err := checkPath("from", in.From); err != nil {
		return err
	}
	if _, err := checkPath("to", in.To); err != nil {
		return err
	}
	return e.oneEntry(w, r, &sandboxv1.Action{Action: &sandboxv1.Action_Rename{Rename: &sandboxv1.Rename{From: in.From, To: in.To}}})
}

func (e *Edge) removeFile(w *answer, r *request) error {
	path, err := r.query.path()
	if err != nil {
		return err
	}
	recursive, err := r.query.flag("recursive")
	if err != nil {
		return err
	}
	if _, err := e.do(r, &sandboxv1.Action{Action: &sandboxv1.Action_Remove{Remove: &sandboxv1.Remove{Path: path, Recursive: recursive}}}); err != nil {
		return err
	}
	return w.noContent()
}

func (e *Edge) listFiles(w *answer, r *request) error {
	path, err := r.query.path()
	if err != nil {
		return err
	}
	depth, err := r.query.number("depth", 1, maxDepth, 1)
	if err != nil {
		return err
	}
	list, err := e.list(r, &sandboxv1.List{Path: path, Depth: uint32(depth)})
	if err != nil {
		return err
	}
	return w.json(http.StatusOK, list)
}

// list gathers a directory's entries, which come in any number of messages.
func (e *Edge) list(r *request, l *sandboxv1.List) (httpapi.FileList, error) {
	out := httpapi.FileList{Entries: []httpapi.FileEntry{}}
	c, m, err := e.begin(r, &sandboxv1.Action{Action: &sandboxv1.Action_List{List: l}})
	if err != nil {
		return out, err
	}
	defer c.close()
	for m != nil {
		for _, e := range m.GetEntries().GetEntries() {
			if len(out.Entries) == maxEntries {
				return out, space.Errorf(space.CodeGuest, "the sandbox lists more than %d entries", maxEntries)
			}
			out.Entries = append(out.Entries, fileEntry(e))
		}
		out.Truncated = out.Truncated || m.GetEntries().GetTruncated()
		if m, err = c.next(doTime); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return out, err
		}
	}
	return out, nil
}

// aboutPath answers with the entry that an action on the path of the query brings.
func (e *Edge) aboutPath(w *answer, r *request, action func(path string) *sandboxv1.Action) error {
	path, err := r.query.path()
	if err != nil {
		return err
	}
	return e.oneEntry(w, r, action(path))
}

// oneEntry answers with the entry that an action brings.
func (e *Edge) oneEntry(w *answer, r *request, a *sandboxv1.Action) error {
	m, err := e.do(r, a)
	if err != nil {
		return err
	}
	entry, err := entryOf(m)
	if err != nil {
		return err
	}
	return w.json(http.StatusOK, fileEntry(entry))
}
