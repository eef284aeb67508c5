package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
)

const (
	chunkBytes = 32 << 10    // of an upload, the most that a message takes
	ackBytes   = 64 << 10    // output that is taken before the guest hears of it, as the platform does it
	filePath   = "/tmp/bare" // on the guest's disk
)

// transfer moves n bytes each way that the platform offers: a command's output, a file that is written and synced, a file that is read.
func transfer(ctx context.Context, l *link.Link, n int64, s *samples) error {
	for _, t := range []struct {
		move func(context.Context, *link.Link, int64) error
		to   *[]float64
	}{{output, &s.Stdout}, {write, &s.FileWrite}, {read, &s.FileRead}} {
		began := time.Now()
		if err := t.move(ctx, l, n); err != nil {
			return err
		}
		*t.to = append(*t.to, float64(n)/1e6/time.Since(began).Seconds())
	}
	return nil
}

// output takes what a command prints, and acknowledges it as it comes.
func output(ctx context.Context, l *link.Link, n int64) error {
	s, err := call(ctx, l, &guestv1.Call{Call: &guestv1.Call_OpenSession{OpenSession: &guestv1.OpenSession{
		Session: "ses_bareout", Spec: &sessionv1.Spec{Argv: []string{"head", "-c", fmt.Sprint(n), "/dev/zero"}},
	}}})
	if err != nil {
		return err
	}
	defer s.Reset(link.CodeCancelled)
	var taken, told uint64
	for {
		m := new(guestv1.FromSession)
		if err := receive(ctx, s, m); err != nil {
			return err
		}
		if o := m.GetOutput(); o != nil {
			taken += uint64(len(o.Data))
		}
		if e := m.GetExit(); e != nil {
			if e.Code != 0 || taken != uint64(n) {
				return fmt.Errorf("head: %v after %d bytes of %d", e, taken, n)
			}
			return nil
		}
		if taken-told < ackBytes {
			continue
		}
		told = taken
		if err := send(ctx, s, &guestv1.ToSession{Message: &guestv1.ToSession_Acknowledged{Acknowledged: taken}}); err != nil {
			return err
		}
	}
}

// write writes a file; the guest answers when it's on its disk.
func write(ctx context.Context, l *link.Link, n int64) error {
	s, err := call(ctx, l, &guestv1.Call{Call: &guestv1.Call_Files{Files: &sandboxv1.Action{
		Action: &sandboxv1.Action_Write{Write: &sandboxv1.Write{Path: filePath}},
	}}})
	if err != nil {
		return err
	}
	defer s.Reset(link.CodeCancelled)
	chunk := bytes.Repeat([]byte{'s'}, chunkBytes)
	for left := n; left > 0; left -= int64(len(chunk)) {
		chunk = chunk[:min(left, chunkBytes)]
		if err := send(ctx, s, &guestv1.ToFiles{Data: chunk, End: left == int64(len(chunk))}); err != nil {
			return err
		}
	}
	_, err = answers(ctx, s)
	return err
}

// read reads the file again.
func read(ctx context.Context, l *link.Link, n int64) error {
	s, err := call(ctx, l, &guestv1.Call{Call: &guestv1.Call_Files{Files: &sandboxv1.Action{
		Action: &sandboxv1.Action_Read{Read: &sandboxv1.Read{Path: filePath, ToEnd: true}},
	}}})
	if err != nil {
		return err
	}
	defer s.Reset(link.CodeCancelled)
	got, err := answers(ctx, s)
	if err == nil && got != n {
		err = fmt.Errorf("%s has %d bytes, want %d", filePath, got, n)
	}
	return err
}

// answers reads to the end of a call and returns how many bytes of content came.
func answers(ctx context.Context, s *link.Stream) (n int64, err error) {
	for {
		m := new(guestv1.FromFiles)
		if err := receive(ctx, s, m); err != nil {
			return n, err
		}
		if e := m.GetError(); e != nil {
			return n, fmt.Errorf("%s: %s", e.Code, e.Message)
		}
		if m.GetDone() != nil {
			return n, nil
		}
		n += int64(len(m.GetResponse().GetData()))
	}
}

func call(ctx context.Context, l *link.Link, c *guestv1.Call) (*link.Stream, error) {
	b, err := proto.Marshal(c)
	if err != nil {
		return nil, err
	}
	return l.Open(ctx, b)
}

func send(ctx context.Context, s *link.Stream, m proto.Message) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return s.Send(ctx, b)
}

func receive(ctx context.Context, s *link.Stream, m proto.Message) error {
	b, err := s.Recv(ctx)
	if err != nil {
		return err
	}
	return proto.Unmarshal(b, m)
}
