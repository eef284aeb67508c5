package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
)

// calls are all that the client can do, by what they send; body is what a recorded call of the kind has sent.
var calls = map[string]func(ctx context.Context, c *api.Client, body []byte) error{
	"GET /": func(ctx context.Context, c *api.Client, _ []byte) error { _, err := c.Instance(ctx); return err },
	"PUT /machine-config": func(ctx context.Context, c *api.Client, b []byte) error {
		return with(b, func(m api.Machine) error { return c.SetMachine(ctx, m) })
	},
	"PUT /cpu-config": func(ctx context.Context, c *api.Client, b []byte) error { return c.SetCPU(ctx, b) },
	"PUT /boot-source": func(ctx context.Context, c *api.Client, b []byte) error {
		return with(b, func(m api.Boot) error { return c.SetBoot(ctx, m) })
	},
	"PUT /drives/disk": func(ctx context.Context, c *api.Client, b []byte) error {
		return with(b, func(m api.Drive) error { return c.SetDrive(ctx, m) })
	},
	"PUT /network-interfaces/net": func(ctx context.Context, c *api.Client, b []byte) error {
		return with(b, func(m api.Network) error { return c.SetNetwork(ctx, m) })
	},
	"PATCH /network-interfaces/net": func(ctx context.Context, c *api.Client, b []byte) error {
		return with(b, func(m api.NetworkLimits) error { return c.LimitNetwork(ctx, m) })
	},
	"PUT /vsock": func(ctx context.Context, c *api.Client, b []byte) error {
		return with(b, func(m api.Vsock) error { return c.SetVsock(ctx, m) })
	},
	"PUT /entropy": func(ctx context.Context, c *api.Client, _ []byte) error { return c.AddEntropy(ctx) },
	"PUT /actions": func(ctx context.Context, c *api.Client, _ []byte) error { return c.Start(ctx) },
	"PATCH /vm": func(ctx context.Context, c *api.Client, b []byte) error {
		if bytes.Contains(b, []byte("Resumed")) {
			return c.Resume(ctx)
		}
		return c.Pause(ctx)
	},
	"PUT /snapshot/create": func(ctx context.Context, c *api.Client, b []byte) error {
		return with(b, func(m api.Save) error { return c.Save(ctx, m) })
	},
	"PUT /snapshot/load": func(ctx context.Context, c *api.Client, b []byte) error {
		return with(b, func(m api.Load) error { return c.Load(ctx, m) })
	},
}

// with calls f with what a body says, all of it.
func with[T any](body []byte, f func(T) error) error {
	var v T
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("a recorded body is no %T: %w", v, err)
	}
	return f(v)
}

// replay answers one call as the real one did, and keeps what it was asked.
type replay struct {
	recorded api.Exchange
	asked    api.Exchange
}

func (r *replay) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.asked = api.Exchange{Method: q.Method, Path: q.URL.Path}
	r.asked.Body, _ = io.ReadAll(q.Body)
	w.WriteHeader(r.recorded.Status)
	w.Write(r.recorded.Answer)
}

// TestRecordedExchanges has the client make each call that the real Firecracker was asked, and read its answer.
func TestRecordedExchanges(t *testing.T) {
	files, err := filepath.Glob("testdata/firecracker-*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded exchanges: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			seen := map[string]bool{}
			for _, x := range read(t, file) {
				call, ok := calls[x.Method+" "+x.Path]
				if !ok {
					t.Errorf("the client has no call for %s %s", x.Method, x.Path)
					continue
				}
				seen[x.Method+" "+x.Path] = true
				check(t, x, call)
			}
			for name := range calls {
				if !seen[name] {
					t.Errorf("no %s was recorded", name)
				}
			}
		})
	}
}

func check(t *testing.T, x api.Exchange, call func(context.Context, *api.Client, []byte) error) {
	t.Helper()
	r := &replay{recorded: x}
	c, heard := serve(t, r)
	err := call(t.Context(), c, x.Body)
	if got, want := decode(t, r.asked.Body), decode(t, x.Body); r.asked.Method != x.Method || r.asked.Path != x.Path || !reflect.DeepEqual(got, want) {
		t.Errorf("asked %s %s, recorded %s %s; %s", r.asked.Method, r.asked.Path, x.Method, x.Path, cmp.Diff(want, got))
	}
	var fault *api.Fault
	switch {
	case x.Status/100 == 2 && err != nil:
		t.Errorf("%s %s: %v", x.Method, x.Path, err)
	case x.Status/100 != 2 && (!errors.As(err, &fault) || fault.Status != x.Status || fault.Message == "" || fault.Message[0] == '{'):
		t.Errorf("%s %s with %d: %v", x.Method, x.Path, x.Status, err)
	case bytes.Contains(x.Answer, []byte("No space left")) && !errors.Is(err, syscall.ENOSPC):
		t.Errorf("%s %s without room: %v", x.Method, x.Path, err)
	}
	if n := len(*heard); n != 1 || (*heard)[0].Status != x.Status {
		t.Errorf("%s %s: the trace has %d exchanges", x.Method, x.Path, n)
	}
}

// serve starts a server for a client, and collects what its trace is told.
func serve(t *testing.T, h http.Handler) (*api.Client, *[]api.Exchange) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	heard := new([]api.Exchange)
	c := api.New(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}, func(x api.Exchange) { *heard = append(*heard, x) })
	t.Cleanup(c.Close)
	return c, heard
}

func read(t *testing.T, file string) []api.Exchange {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []api.Exchange
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var x api.Exchange
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

func decode(t *testing.T, b []byte) any {
	t.Helper()
	if len(b) == 0 {
		return nil
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
