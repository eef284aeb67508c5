package edge

import (
	"fmt"

	space "github.com/space-platform/space"
	httpapi "github.com/space-platform/space/api/gen/http"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// fileEntry is what a guest says of a file, as a client reads it. The guest may say anything; that is its sandbox's own affair, as long as it has
// the form of an entry.
func fileEntry(e *sandboxv1.Entry) httpapi.FileEntry {
	out := httpapi.FileEntry{
		Path: e.GetPath(), Type: httpapi.FileEntryType(e.GetType()), Size: signed(e.GetSize()), Mode: fmt.Sprintf("%04o", e.GetMode()&0o7777),
		Uid: int64(e.GetUid()), Gid: int64(e.GetGid()), Owner: known(e.GetOwner()), Group: known(e.GetGroup()), ModifiedAt: e.GetModified().AsTime(), Target: known(e.GetTarget()),
	}
	switch out.Type {
	case httpapi.FileEntryTypeFile, httpapi.FileEntryTypeDirectory, httpapi.FileEntryTypeSymlink:
	default:
		out.Type = httpapi.FileEntryTypeOther
	}
	return out
}

// signed is a size as JSON has it.
func signed(n uint64) int64 { return int64(min(n, 1<<63-1)) }

// known is a string that is left out when it's empty.
func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// truth is what is left out when it isn't so.
func truth(b bool) *bool {
	if !b {
		return nil
	}
	return &b
}

// entryOf is the entry that an answer must have.
func entryOf(m *sandboxv1.CallResponse) (*sandboxv1.Entry, error) {
	if e := m.GetEntry(); e != nil {
		return e, nil
	}
	return nil, space.Errorf(space.CodeGuest, "the sandbox answered with something else than an entry")
}
