package template

import (
	"cmp"
	"context"
	"errors"
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
	f, err := b.use(c.Upload)
	if err != nil {
		return err
	}
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
	owner, group, _ := strings.Cut(cmp.Or(c.Owner, root), ":")
	return b.unpack(ctx, l, &sandboxv1.WriteArchive{Path: c.To, Owner: owner, Group: group}, plain)
}

func (b *builder) unpack(ctx context.Context, l *link.Link, w *sandboxv1.WriteArchive, archive io.Reader) error {
	a := &sandboxv1.Action{User: root, Action: &sandboxv1.Action_WriteArchive{WriteArchive: w}}
	c := &caller{upload: archive}
	if err := files.Relay(ctx, l, a, c); err != nil {
		return err
	}
	b.log(b.step, fmt.Sprintf("%d entries, %d bytes", c.last.GetUnpacked().GetEntries(), c.last.GetUnpacked().GetBytes()))
	return nil
}

// workdir is a directory that sessions begin in, which is made if it's missing.
type workdir struct {
	path, user string
	step       int // that says so
	field      string
}

// makeWorkdirs makes the working directories that have been set since a machine ran last, each for the user that was set by then.
func (b *builder) makeWorkdirs(ctx context.Context, l *link.Link) error {
	for _, d := range b.workdirs {
		if err := d.make(ctx, l); err != nil {
			return at(d.step, d.blame(err))
		}
	}
	b.workdirs = nil
	return nil
}

// make makes the directory for its user, with those above it that are missing. One that's there stays as it is.
func (d workdir) make(ctx context.Context, l *link.Link) error {
	user, group, _ := strings.Cut(d.user, ":") // as an image may say it
	return ask(ctx, l, &sandboxv1.Action{User: root, Action: &sandboxv1.Action_MakeDirectory{MakeDirectory: &sandboxv1.MakeDirectory{
		Path: d.path, Owner: cmp.Or(user, root), Group: group,
	}}})
}

func (d workdir) blame(err error) error {
	var e *space.Error
	if !errors.As(err, &e) {
		return err
	}
	return &space.Error{Code: e.Code, Field: d.field, Message: "the working directory: " + e.Message, Err: err}
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
