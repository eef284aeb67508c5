package files

import (
	"math"
	"slices"
	"strings"

	space "github.com/space-platform/space"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// The limits of what a guest may say, in bytes.
const (
	maxPath    = 16 << 10 // a path of 4096 bytes, of which each may have become three
	maxOwner   = 1 << 10  // the name of a user or a group
	maxMessage = 2 << 10  // of an error, the field's name included
	maxMode    = 0o7777
)

// checkEntry returns an entry that can be passed on. protobuf has seen to it that its texts are UTF-8.
func checkEntry(e *sandboxv1.Entry) (*sandboxv1.Entry, error) {
	switch e.GetType() {
	case "file", "directory", "symlink", "other":
	default:
		return nil, violation("an entry of an unknown type")
	}
	switch {
	case !strings.HasPrefix(e.GetPath(), "/") || len(e.GetPath()) > maxPath || len(e.GetTarget()) > maxPath:
		return nil, violation("a path of %d bytes, a target of %d", len(e.GetPath()), len(e.GetTarget()))
	case len(e.GetOwner()) > maxOwner || len(e.GetGroup()) > maxOwner:
		return nil, violation("an owner of %d bytes, a group of %d", len(e.GetOwner()), len(e.GetGroup()))
	case e.GetSize() > math.MaxInt64 || e.GetMode() > maxMode:
		return nil, violation("a size of %d, a mode of %o", e.GetSize(), e.GetMode())
	}
	out := &sandboxv1.Entry{
		Path: e.GetPath(), Type: e.GetType(), Size: e.GetSize(), Mode: e.GetMode(), Uid: e.GetUid(), Gid: e.GetGid(),
		Owner: e.GetOwner(), Group: e.GetGroup(), Target: e.GetTarget(), Created: e.GetCreated(),
	}
	if e.GetModified().CheckValid() == nil {
		out.Modified = e.GetModified()
		out.Modified.ProtoReflect().SetUnknown(nil)
	}
	return out, nil
}

func checkEvent(e *sandboxv1.Event) (*sandboxv1.Event, error) {
	switch e.GetKind() {
	case "create", "write", "remove", "rename", "chmod", "overflow":
	default:
		return nil, violation("an event of an unknown kind")
	}
	if len(e.GetPath()) > maxPath {
		return nil, violation("a path of %d bytes", len(e.GetPath()))
	}
	return &sandboxv1.Event{Kind: e.GetKind(), Path: e.GetPath()}, nil
}

// guestCodes are the errors of every action that are a guest's to give; rules has those that only some have. Another one would speak for the platform.
var guestCodes = []space.Code{
	space.CodeInvalid, space.CodeNotFound, space.CodeConflict, space.CodeForbidden, space.CodeTooLarge, space.CodeGuest, space.CodeUnavailable, space.CodeTimeout,
}

// checkError lets a guest's error pass if it's one of the action's.
func (r *rules) checkError(m *routev1.Error) *space.Error {
	e := &space.Error{Code: space.Code(m.GetCode()), Field: clip(m.GetField()), Message: clip(m.GetMessage())}
	if !slices.Contains(guestCodes, e.Code) && !slices.Contains(r.codes, e.Code) {
		e.Code, e.Field = space.CodeGuest, ""
	}
	return e
}

func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxMessage)], "") }
