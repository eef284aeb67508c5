package guest

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/guest/files"
)

// fileCall is a call about files, as a host sees it.
type fileCall struct {
	d       *guestd
	s       *link.Stream
	answers []*sandboxv1.CallResponse
	data    bytes.Buffer
}

func (d *guestd) fileCall(l *link.Link, a *sandboxv1.Action) *fileCall {
	d.t.Helper()
	a.User = "root"
	return &fileCall{d: d, s: d.call(l, &guestv1.Call{Call: &guestv1.Call_Files{Files: a}})}
}

// next receives one message; over says that it was the last.
func (c *fileCall) next() (over bool, err error) {
	b, err := c.s.Recv(c.d.ctx)
	if err != nil {
		return true, err
	}
	var m guestv1.FromFiles
	if err := proto.Unmarshal(b, &m); err != nil {
		return true, err
	}
	switch m := m.Message.(type) {
	case *guestv1.FromFiles_Response:
		if m.Response.GetData() != nil {
			c.data.Write(m.Response.GetData())
		} else {
			c.answers = append(c.answers, m.Response)
		}
		return false, nil
	case *guestv1.FromFiles_Error:
		err = errors.New(m.Error.Code)
	}
	if _, end := c.s.Recv(c.d.ctx); end != io.EOF {
		return true, fmt.Errorf("after the last message: %w", end)
	}
	c.s.CloseSend()
	return true, err
}

func (c *fileCall) finish() error {
	for {
		if over, err := c.next(); over {
			return err
		}
	}
}

func (c *fileCall) upload(b []byte, end bool) error {
	for {
		n := min(len(b), 32<<10)
		m, err := proto.Marshal(&guestv1.ToFiles{Data: b[:n], End: end && n == len(b)})
		if err != nil {
			return err
		}
		if err := c.s.Send(c.d.ctx, m); err != nil {
			return err
		}
		if b = b[n:]; len(b) == 0 {
			return nil
		}
	}
}

func writeAction(p string) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_Write{Write: &sandboxv1.Write{Path: p}}}
}

func readAction(p string) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_Read{Read: &sandboxv1.Read{Path: p, ToEnd: true}}}
}

func watchAction(p string) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_Watch{Watch: &sandboxv1.Watch{Path: p, Recursive: true}}}
}

func TestFilesOverTheLink(t *testing.T) {
	d := startGuest(t)
	l := d.attach()
	p := filepath.Join(t.TempDir(), "sub", "f")
	want := make([]byte, 5<<20+17) // many times the credit
	rand.Read(want)
	c := d.fileCall(l, writeAction(p))
	if err := errors.Join(c.upload(want, true), c.finish()); err != nil {
		t.Fatal(err)
	}
	if e := c.answers[0].GetEntry(); e.GetSize() != uint64(len(want)) || e.GetPath() != p {
		t.Errorf("%v", e)
	}
	c = d.fileCall(l, readAction(p))
	if err := c.finish(); err != nil || !bytes.Equal(c.data.Bytes(), want) {
		t.Errorf("%v after %d bytes", err, c.data.Len())
	}
	if err := d.fileCall(l, readAction(p+"/none")).finish(); err == nil || err.Error() != "conflict" {
		t.Errorf("%v", err)
	}
}

// TestUploadThatEndsEarly: closed, reset, cut off with its link, or refused: nothing is left, and the link goes on.
func TestUploadThatEndsEarly(t *testing.T) {
	d := startGuest(t)
	dir := t.TempDir()
	begun := func(l *link.Link) *fileCall {
		c := d.fileCall(l, writeAction(filepath.Join(dir, "f")))
		if err := c.upload(make([]byte, 100_000), false); err != nil {
			t.Fatal(err)
		}
		for entries, _ := os.ReadDir(dir); len(entries) == 0 && d.ctx.Err() == nil; entries, _ = os.ReadDir(dir) {
		}
		return c
	}
	for name, end := range map[string]func(l *link.Link, c *fileCall){
		"closed": func(_ *link.Link, c *fileCall) {
			c.s.CloseSend()
			if _, err := c.next(); resetCode(err) != link.CodeProtocol {
				t.Errorf("a closed upload ends with %v", err)
			}
		},
		"reset":     func(_ *link.Link, c *fileCall) { c.s.Reset(link.CodeCancelled) },
		"cut off":   func(l *link.Link, c *fileCall) { l.Close(); d.attach() },
		"malformed": func(_ *link.Link, c *fileCall) { c.s.Send(d.ctx, []byte("\xff\xff")) },
	} {
		t.Run(name, func(t *testing.T) {
			l := d.attach()
			end(l, begun(l))
			for entries, _ := os.ReadDir(dir); len(entries) > 0; entries, _ = os.ReadDir(dir) {
				if d.ctx.Err() != nil {
					t.Fatalf("%v is left", entries)
				}
			}
		})
	}
	l := d.attach()
	c := d.fileCall(l, writeAction(dir)) // refused at once, while the host still sends
	go c.upload(make([]byte, 10<<20), true)
	if err := c.finish(); err == nil || err.Error() != "conflict" {
		t.Errorf("%v", err)
	}
}

func TestWatchOverTheLink(t *testing.T) {
	d := startGuest(t)
	l := d.attach()
	dir := t.TempDir()
	for range 3 * files.MaxWatches { // each gives its place back
		c := d.fileCall(l, watchAction(dir))
		c.s.CloseSend() // says nothing about how long it's wanted
		if _, err := c.next(); err != nil || c.answers[0].GetReady() == nil {
			for err != nil && err.Error() == "unavailable" { // the one before isn't gone yet
				c = d.fileCall(l, watchAction(dir))
				_, err = c.next()
			}
			if err != nil {
				t.Fatalf("%v, %v", err, c.answers)
			}
		}
		p := filepath.Join(dir, newID())
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.next(); err != nil || c.answers[1].GetEvent().GetPath() != p {
			t.Fatalf("%v, %v", err, c.answers)
		}
		c.s.Reset(link.CodeCancelled)
	}
	var held []*fileCall
	for {
		c := d.fileCall(l, watchAction(dir))
		if _, err := c.next(); err != nil {
			if err.Error() != "unavailable" {
				t.Error(err)
			}
			break
		}
		if held = append(held, c); len(held) > files.MaxWatches {
			t.Fatal("watches aren't bounded")
		}
	}
}

func TestMeasure(t *testing.T) {
	d := startGuest(t)
	s := d.call(d.attach(), &guestv1.Call{Call: &guestv1.Call_Measure{Measure: &guestv1.Measure{}}})
	b, err := s.Recv(d.ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.CloseSend()
	var u sandboxv1.GuestUsage
	if err := proto.Unmarshal(b, &u); err != nil || u.MemoryTotalBytes == 0 || u.Processes == 0 {
		t.Errorf("%v, %v", &u, err)
	}
}

// TestCommandsOutliveFileCalls: each call about files uses up a thread, and commands are children of threads.
func TestCommandsOutliveFileCalls(t *testing.T) {
	d := startGuest(t)
	l := d.attach()
	s := d.talkOn(l, &guestv1.OpenSession{Session: newID(), Spec: withOpenStdin("read x; echo $x")})
	for range 200 {
		if err := d.fileCall(l, readAction("/etc/passwd")).finish(); err != nil {
			t.Fatal(err)
		}
	}
	s.write("alive\n", true)
	if e := s.untilExit(); e.Code != 0 || s.out.String() != "alive\n" {
		t.Errorf("%v, %q", e, s.out.String())
	}
}
