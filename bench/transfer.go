package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/space-platform/space/client"
)

const (
	transferRounds = 5
	transferBytes  = 16 << 20
	transferPath   = "/tmp/bench"
)

// transfers measures how fast bytes leave and enter a warm sandbox, in turns with the bare agent on the same link. The output is read through
// the whole of the platform: ring, node and edge. A written file is on the sandbox's disk when the write is answered, ours as the bare one.
func (r *run) transfers(ctx context.Context) ([]result, error) {
	var ours, bare rates
	for n := range transferRounds {
		log.Printf("transfers %d of %d", n+1, transferRounds)
		b, err := r.byHand(ctx, "-rounds", "1", "-execs", "1", "-line=false", "-transfer", fmt.Sprint(transferBytes))
		if err != nil {
			return nil, err
		}
		bare.add(b.rates)
		o, err := r.transfer(ctx)
		if err != nil {
			return nil, err
		}
		ours.add(o)
	}
	var out []result
	for _, x := range []struct {
		name       string
		ours, bare []float64
	}{
		{"stdout_mbps", ours.Stdout, bare.Stdout}, {"file_write_mbps", ours.FileWrite, bare.FileWrite}, {"file_read_mbps", ours.FileRead, bare.FileRead},
	} {
		f := compare(x.name, x.ours, x.bare)
		f.Unit = "MB/s"
		out = append(out, f)
	}
	return out, nil
}

// rates are megabytes (10⁶) a second.
type rates struct {
	Stdout    []float64 `json:"stdout_mbps"`
	FileWrite []float64 `json:"file_write_mbps"`
	FileRead  []float64 `json:"file_read_mbps"`
}

func (r *rates) add(m rates) {
	r.Stdout = append(r.Stdout, m.Stdout...)
	r.FileWrite = append(r.FileWrite, m.FileWrite...)
	r.FileRead = append(r.FileRead, m.FileRead...)
}

// transfer moves the bytes through the public API, in a sandbox of its own whose first command is over.
func (r *run) transfer(ctx context.Context) (out rates, err error) {
	s, err := r.client.CreateSandbox(ctx, client.SandboxCreate{Template: r.template})
	if err != nil {
		return out, err
	}
	defer func() {
		if derr := r.client.DeleteSandbox(ctx, s.Id); err == nil {
			err = derr
		}
	}()
	if err := r.echo(ctx, s); err != nil {
		return out, err
	}
	p, err := r.client.Plane(ctx, s.Id)
	if err != nil {
		return out, err
	}
	defer p.Close(ctx)
	for _, t := range []struct {
		move func() error
		to   *[]float64
	}{
		{func() error { return r.output(ctx, s) }, &out.Stdout},
		{func() error {
			_, err := p.WriteFile(ctx, transferPath, bytes.NewReader(bytes.Repeat([]byte{'s'}, transferBytes)))
			return err
		}, &out.FileWrite},
		{func() error { return readAll(ctx, p) }, &out.FileRead},
	} {
		began := time.Now()
		if err := t.move(); err != nil {
			return out, err
		}
		*t.to = append(*t.to, transferBytes/1e6/time.Since(began).Seconds())
	}
	return out, nil
}

// output reads what a command prints.
func (r *run) output(ctx context.Context, s client.Sandbox) error {
	c, err := r.client.CreateSession(ctx, s.Id, client.SessionCreate{Argv: &[]string{"head", "-c", fmt.Sprint(transferBytes), "/dev/zero"}})
	if err != nil {
		return err
	}
	got := 0
	for e, err := range r.client.Attach(ctx, c.Session, c.Attachment) {
		if err != nil {
			return err
		}
		got += len(e.Data)
	}
	if got != transferBytes {
		return fmt.Errorf("head printed %d bytes of %d", got, transferBytes)
	}
	return nil
}

func readAll(ctx context.Context, p *client.Plane) error {
	body, err := p.ReadFile(ctx, transferPath, 0)
	if err != nil {
		return err
	}
	defer body.Close()
	n, err := io.Copy(io.Discard, body)
	if err == nil && n != transferBytes {
		err = fmt.Errorf("%s has %d bytes, want %d", transferPath, n, transferBytes)
	}
	return err
}
