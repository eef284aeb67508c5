package e2b

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/gen/e2b/filesystem"
	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

const (
	// maxLinks bounds the links that are followed for one path, as in the kernel.
	maxLinks = 40
	// maxDepth is the deepest listing that the platform makes.
	maxDepth = 100
)

type filesystemService struct{ f *Facade }

// inGuest is a path as the platform takes it: absolute, or relative to the user's home.
func inGuest(p string) string {
	switch {
	case p == "" || p == "~":
		return "."
	case strings.HasPrefix(p, "~/"):
		return "./" + p[2:]
	}
	return p
}

func (g guest) as() client.FileOption { return client.AsUser(g.user) }

// follow returns what is at a path, and of a link what it leads to.
func (g guest) follow(ctx context.Context, p string) (client.FileEntry, error) {
	e, err := g.plane.StatFile(ctx, p, g.as())
	for n := 0; err == nil && e.Type == api.FileEntryTypeSymlink; n++ {
		if e.Target == nil || n == maxLinks {
			return e, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("%s: too many links", space.Clip(p)))
		}
		e, err = g.plane.StatFile(ctx, beside(e.Path, *e.Target), g.as())
	}
	return e, err
}

// beside is the path that a link leads to.
func beside(link, target string) string {
	if path.IsAbs(target) {
		return path.Clean(target)
	}
	return path.Join(path.Dir(link), target)
}

// info is an entry in E2B's words. Of a link it's the target's type and mode.
func (g guest) info(ctx context.Context, e client.FileEntry) *filesystem.EntryInfo {
	out := &filesystem.EntryInfo{
		Name: path.Base(e.Path), Path: e.Path, Size: e.Size, Owner: either(e.Owner, e.Uid), Group: either(e.Group, e.Gid),
		ModifiedTime: timestamppb.New(e.ModifiedAt), Type: fileType(e.Type),
	}
	bits := permission(e.Mode)
	out.Mode, out.Permissions = uint32(bits), permissions(e.Type, bits)
	if e.Type != api.FileEntryTypeSymlink {
		return out
	}
	if e.Target != nil {
		target := beside(e.Path, *e.Target)
		out.SymlinkTarget = &target
	}
	if to, err := g.follow(ctx, e.Path); err == nil {
		out.Type, out.Mode, out.SymlinkTarget = fileType(to.Type), uint32(permission(to.Mode)), &to.Path
	}
	return out
}

// either is a name, or the number of who has none.
func either(name *string, number int64) string {
	if name != nil {
		return *name
	}
	return strconv.FormatInt(number, 10)
}

func permission(octal string) fs.FileMode {
	n, err := strconv.ParseUint(octal, 8, 32)
	if err != nil {
		return 0
	}
	return fs.FileMode(n) & fs.ModePerm
}

// permissions is a mode as Go writes it.
func permissions(t api.FileEntryType, bits fs.FileMode) string {
	switch t {
	case api.FileEntryTypeDirectory:
		bits |= fs.ModeDir
	case api.FileEntryTypeSymlink:
		bits |= fs.ModeSymlink
	}
	return bits.String()
}

func fileType(t api.FileEntryType) filesystem.FileType {
	switch t {
	case api.FileEntryTypeFile:
		return filesystem.FileType_FILE_TYPE_FILE
	case api.FileEntryTypeDirectory:
		return filesystem.FileType_FILE_TYPE_DIRECTORY
	}
	return filesystem.FileType_FILE_TYPE_UNSPECIFIED
}

// Stat implements filesystemconnect.FilesystemHandler.
func (s filesystemService) Stat(ctx context.Context, r *connect.Request[filesystem.StatRequest]) (*connect.Response[filesystem.StatResponse], error) {
	g := guestOf(ctx)
	e, err := g.plane.StatFile(ctx, inGuest(r.Msg.GetPath()), g.as())
	if err != nil {
		return nil, g.fileRefusal(ctx, err)
	}
	return connect.NewResponse(&filesystem.StatResponse{Entry: g.info(ctx, e)}), nil
}

// fileRefusal is for calls about paths: a part of a path that is no directory means that nothing is there.
func (g guest) fileRefusal(ctx context.Context, err error) error {
	if is(err, space.CodeConflict) && strings.Contains(err.Error(), "a part of the path is not a directory") {
		return connect.NewError(connect.CodeNotFound, errors.New(understand(ctx, err).Message))
	}
	return g.refusal(ctx, err)
}

// MakeDir implements filesystemconnect.FilesystemHandler.
func (s filesystemService) MakeDir(ctx context.Context, r *connect.Request[filesystem.MakeDirRequest]) (*connect.Response[filesystem.MakeDirResponse], error) {
	g, p := guestOf(ctx), inGuest(r.Msg.GetPath())
	there, err := g.follow(ctx, p)
	switch {
	case err == nil && there.Type == api.FileEntryTypeDirectory:
		return nil, connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("directory %s exists already", space.Clip(there.Path)))
	case err == nil:
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s is there, and is no directory", space.Clip(there.Path)))
	case !is(err, space.CodeNotFound):
		return nil, g.refusal(ctx, err)
	}
	e, err := g.plane.MakeDirectory(ctx, p, g.as())
	if err != nil {
		return nil, g.refusal(ctx, err)
	}
	return connect.NewResponse(&filesystem.MakeDirResponse{Entry: g.info(ctx, e)}), nil
}

// Move implements filesystemconnect.FilesystemHandler.
func (s filesystemService) Move(ctx context.Context, r *connect.Request[filesystem.MoveRequest]) (*connect.Response[filesystem.MoveResponse], error) {
	g, from, to := guestOf(ctx), inGuest(r.Msg.GetSource()), inGuest(r.Msg.GetDestination())
	e, err := g.plane.RenameFile(ctx, from, to, g.as())
	if is(err, space.CodeNotFound) {
		if e, err = s.moveInto(ctx, g, from, to); err != nil {
			return nil, g.refusal(ctx, err)
		}
	}
	if err != nil {
		return nil, g.fileRefusal(ctx, err)
	}
	return connect.NewResponse(&filesystem.MoveResponse{Entry: g.info(ctx, e)}), nil
}

// moveInto makes the destination's directory, if it's that which is missing.
func (s filesystemService) moveInto(ctx context.Context, g guest, from, to string) (client.FileEntry, error) {
	if _, err := g.plane.StatFile(ctx, from, g.as()); err != nil {
		return client.FileEntry{}, err
	}
	if _, err := g.plane.MakeDirectory(ctx, path.Dir(to), g.as()); err != nil {
		return client.FileEntry{}, err
	}
	return g.plane.RenameFile(ctx, from, to, g.as())
}

// ListDir implements filesystemconnect.FilesystemHandler.
func (s filesystemService) ListDir(ctx context.Context, r *connect.Request[filesystem.ListDirRequest]) (*connect.Response[filesystem.ListDirResponse], error) {
	g, p, depth := guestOf(ctx), inGuest(r.Msg.GetPath()), max(int(r.Msg.GetDepth()), 1)
	root, err := g.follow(ctx, p)
	if err != nil {
		return nil, g.fileRefusal(ctx, err)
	}
	if root.Type != api.FileEntryTypeDirectory {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s is not a directory", space.Clip(root.Path)))
	}
	entries, truncated, err := g.plane.ListFiles(ctx, root.Path, min(depth, maxDepth), g.as())
	if err != nil {
		return nil, g.fileRefusal(ctx, err)
	}
	if truncated {
		return nil, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("%s has more than %d entries: list less deeply", space.Clip(root.Path), len(entries)))
	}
	asked := root.Path
	if path.IsAbs(p) {
		asked = path.Clean(p)
	}
	out := &filesystem.ListDirResponse{}
	for _, e := range entries {
		info := g.info(ctx, e)
		info.Path = path.Join(asked, strings.TrimPrefix(info.Path, root.Path))
		out.Entries = append(out.Entries, info)
	}
	return connect.NewResponse(out), nil
}

// Remove implements filesystemconnect.FilesystemHandler.
func (s filesystemService) Remove(ctx context.Context, r *connect.Request[filesystem.RemoveRequest]) (*connect.Response[filesystem.RemoveResponse], error) {
	g := guestOf(ctx)
	err := g.plane.RemoveFile(ctx, inGuest(r.Msg.GetPath()), true, g.as())
	if is(err, space.CodeNotFound) {
		err = nil
	}
	return respond(&filesystem.RemoveResponse{}, g.refusal(ctx, err))
}
