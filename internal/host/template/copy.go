package template

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/files"
	"github.com/space-platform/space/internal/host/image"
)

// root is whose files a copy makes that names nobody.
const root = "root"

// copyInto lets the guest unpack an upload, whose archive the host doesn't look into.
func (b *builder) copyInto(ctx context.Context, l *link.Link, c Copy) error {
	b.said("copy to " + c.To)
	f, done, err := b.cfg.Uploads.Use(c.Upload)
	if err != nil {
		return err
	}
	defer done()
	archive, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer archive.Close()
	plain, err := image.Decompress(archive)
	if err != nil {
		return &space.Error{Code: space.CodeInvalid, Message: "the upload: " + err.Error(), Err: err}
	}
	defer plain.Close()
	user, group, _ := strings.Cut(c.Owner, ":")
	made, err := makeFor(ctx, l, c.To, user)
	if err != nil {
		return err
	}
	if err := b.unpack(ctx, l, c.To, cmp.Or(user, root), plain); err != nil || group == "" {
		return err
	}
	if !made {
		return space.Errorf(space.CodeInvalid, "a group can be given for a new directory only, and %s is there", space.Clip(c.To))
	}
	return change(ctx, l, &sandboxv1.Change{Path: c.To, Group: group, Recursive: true})
}

func (b *builder) unpack(ctx context.Context, l *link.Link, to, user string, archive io.Reader) error {
	a := &sandboxv1.Action{User: user, Action: &sandboxv1.Action_WriteArchive{WriteArchive: &sandboxv1.WriteArchive{Path: to}}}
	c := &caller{upload: archive}
	if err := files.Relay(ctx, l, a, c); err != nil {
		return err
	}
	b.log(b.step, fmt.Sprintf("%d entries, %d bytes", c.last.GetUnpacked().GetEntries(), c.last.GetUnpacked().GetBytes()))
	return nil
}

// makeFor makes a directory that belongs to a user, whoever the one above belongs to. One that's there stays as it is.
func makeFor(ctx context.Context, l *link.Link, path, user string) (made bool, err error) {
	err = ask(ctx, l, &sandboxv1.Action{User: root, Action: &sandboxv1.Action_Stat{Stat: &sandboxv1.Stat{Path: path}}})
	if err == nil || space.CodeOf(err) != space.CodeNotFound {
		return false, err
	}
	err = ask(ctx, l, &sandboxv1.Action{User: root, Action: &sandboxv1.Action_MakeDirectory{MakeDirectory: &sandboxv1.MakeDirectory{Path: path}}})
	if err != nil || user == "" {
		return true, err
	}
	return true, change(ctx, l, &sandboxv1.Change{Path: path, Owner: user})
}

func change(ctx context.Context, l *link.Link, c *sandboxv1.Change) error {
	return ask(ctx, l, &sandboxv1.Action{User: root, Action: &sandboxv1.Action_Change{Change: c}})
}

func ask(ctx context.Context, l *link.Link, a *sandboxv1.Action) error {
	return files.Relay(ctx, l, a, &caller{})
}

// caller is a build that asks a guest about its files.
type caller struct {
	upload io.Reader
	last   *sandboxv1.CallResponse
}

// Receive returns the next bytes of the upload.
func (c *caller) Receive() (data []byte, end bool, err error) {
	buf := make([]byte, files.MaxData)
	n, err := io.ReadFull(c.upload, buf)
	switch err {
	case io.EOF, io.ErrUnexpectedEOF:
		return buf[:n], true, nil
	case nil:
		return buf, false, nil
	}
	return nil, false, &space.Error{Code: space.CodeInvalid, Message: "the upload can't be read: " + err.Error(), Err: err}
}

// Send takes an answer.
func (c *caller) Send(m *sandboxv1.CallResponse) error {
	c.last = m
	return nil
}
