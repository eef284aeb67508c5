package files

import (
	"bufio"
	"io"
	"os"

	"golang.org/x/sys/unix"

	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/guest/archive"
	"github.com/space-platform/space/internal/guest/failure"
)

func (c *call) readArchive(a *sandboxv1.ReadArchive) error {
	p, err := c.path("path", a.GetPath())
	if err != nil {
		return err
	}
	dir, err := openDirectory(p)
	if err != nil {
		return failure.Of("pack", p, err)
	}
	defer dir.Close()
	w := bufio.NewWriterSize(writer{c}, ChunkBytes)
	if err := archive.Pack(c.ctx, dir, w); err != nil {
		return failure.Of("pack", p, err)
	}
	return w.Flush()
}

// writer sends what is written to it.
type writer struct{ c *call }

func (w writer) Write(b []byte) (int, error) {
	for at := 0; at < len(b); {
		n := min(len(b)-at, ChunkBytes)
		if err := w.c.sendData(b[at : at+n]); err != nil {
			return at, err
		}
		at += n
	}
	return len(b), nil
}

func (c *call) writeArchive(a *sandboxv1.WriteArchive) error {
	p, err := c.path("path", a.GetPath())
	if err != nil {
		return err
	}
	owner, err := c.owner(a.GetOwner(), a.GetGroup())
	if err != nil {
		return err
	}
	made, err := makeAll(p)
	if err == nil {
		err = owner.give(made)
	}
	if err != nil {
		return failure.Of("make the directory", p, err)
	}
	root, err := os.OpenRoot(p)
	if err != nil {
		return failure.Of("unpack into", p, err)
	}
	defer root.Close()
	upload := &reader{c: c}
	result, err := archive.Unpack(c.ctx, root, upload, (*archive.Owner)(owner))
	if err != nil {
		return failure.Of("unpack into", p, err)
	}
	if _, err := io.Copy(io.Discard, upload); err != nil { // what may follow an archive's end
		return err
	}
	if err := syncAll(root); err != nil {
		return failure.Of("unpack into", p, err)
	}
	return c.send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Unpacked{Unpacked: &sandboxv1.Unpacked{
		Entries: result.Entries, Bytes: result.Bytes,
	}}})
}

// syncAll writes everything to the disk that a directory is on.
func syncAll(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.Syncfs(int(dir.Fd()))
}

// reader reads an upload.
type reader struct {
	c    *call
	data []byte
	end  bool
}

func (r *reader) Read(b []byte) (int, error) {
	for len(r.data) == 0 {
		if r.end {
			return 0, io.EOF
		}
		var err error
		if r.data, r.end, err = r.c.conversation.Receive(r.c.ctx); err != nil {
			return 0, err
		}
	}
	n := copy(b, r.data)
	r.data = r.data[n:]
	return n, nil
}
