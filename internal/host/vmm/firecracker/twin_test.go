package firecracker_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker"
	"github.com/space-platform/space/internal/host/vmm/pager"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
	"github.com/space-platform/space/internal/proc"
)

// The failing twin is a Firecracker, with its jailer, that answers as the real one does and fails where it's told to. It's this test's own
// program, in a process of its own with a root directory of its own.

// twinVariable makes the program the twin; it holds its orders.
const twinVariable = "FIRECRACKER_TWIN"

// twinOrders are what a twin is to do wrong.
type twinOrders struct {
	Root  string // what it makes its root directory
	At    string // the call at which it fails: "PUT /vsock"; "start" is before its socket is there
	Fault string // refuse, hang, half, exit, garbage, flood
	Port  string // what it does with a connection to the guest: "" answers, shut, hang, garbage, flood
	// Version is what it says over its API: 1.16.1 if "".
	Version string
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == pager.Subcommand {
		os.Exit(pager.Main(os.Args[2:]))
	}
	if text := os.Getenv(twinVariable); text != "" {
		var o twinOrders
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			panic(err)
		}
		(&twin{orders: o, state: "Not started"}).run()
		return
	}
	os.Exit(m.Run())
}

type twin struct {
	orders twinOrders

	mu    sync.Mutex
	state string
}

func (t *twin) run() {
	if t.orders.At == "start" {
		t.fail()
	}
	if err := errors.Join(syscall.Chroot(t.orders.Root), os.Chdir("/"), os.MkdirAll("/run", 0o700)); err != nil {
		panic(err)
	}
	link, err := net.Listen("unix", "/run/link.sock")
	if err != nil {
		panic(err)
	}
	go t.servePort(link)
	l, err := net.Listen("unix", "/run/api.sock")
	if err != nil {
		panic(err)
	}
	panic(http.Serve(l, t))
}

// fail is how it fails outside of a call.
func (t *twin) fail() {
	switch t.orders.Fault {
	case "exit":
		fmt.Fprintln(os.Stderr, "the twin's last words")
		os.Exit(1)
	case "hang":
		select {}
	}
}

func (t *twin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if r.Method+" "+r.URL.Path == t.orders.At && t.failCall(w) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r.Method == http.MethodGet:
		json.NewEncoder(w).Encode(map[string]string{"app_name": "Firecracker", "id": "twin", "state": t.state, "vmm_version": cmp.Or(t.orders.Version, "1.16.1")})
		return
	case strings.Contains(string(body), `"InstanceStart"`), strings.Contains(string(body), `"Resumed"`):
		t.state = "Running"
	case strings.Contains(string(body), `"Paused"`), strings.HasPrefix(r.URL.Path, "/snapshot/load"):
		t.state = "Paused"
	case strings.Contains(string(body), "nowhere"):
		refuse(w)
		return
	case r.URL.Path == "/snapshot/create":
		t.note(body)
	}
	w.WriteHeader(http.StatusNoContent)
}

// note writes down what it was to save.
func (t *twin) note(body []byte) {
	f, err := os.OpenFile("/saves", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.Write(append(body, '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}

func refuse(w http.ResponseWriter) {
	w.WriteHeader(http.StatusBadRequest)
	io.WriteString(w, `{"fault_message":"the twin refuses"}`)
}

// failCall reports whether the call has had its answer.
func (t *twin) failCall(w http.ResponseWriter) bool {
	t.fail()
	if t.orders.Fault == "refuse" {
		refuse(w)
		return true
	}
	c, b, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	switch t.orders.Fault {
	case "half":
		b.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"state\":")
		b.Flush()
		c.Close()
	case "garbage":
		b.WriteString("\x00\x01 this isn't HTTP\r\n\r\n")
		b.Flush()
		c.Close()
	case "flood":
		b.WriteString("HTTP/1.1 200 OK\r\n\r\n")
		for {
			if _, err := b.Write(make([]byte, 64<<10)); err != nil {
				break
			}
		}
		c.Close()
	}
	return true
}

func (t *twin) servePort(l net.Listener) {
	for tries := 0; ; tries++ {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		r := bufio.NewReader(c)
		line, _ := r.ReadString('\n')
		switch {
		case line != "CONNECT 1000\n", t.orders.Port == "shut", t.orders.Port == "" && tries < 2: // as before the guest has booted
			c.Close()
		case t.orders.Port == "garbage":
			io.WriteString(c, "NO\n")
			c.Close()
		case t.orders.Port == "flood":
			io.WriteString(c, strings.Repeat("O", 1<<16))
			c.Close()
		case t.orders.Port == "":
			io.WriteString(c, "OK 1073741824\nthe guest's first word")
		}
	}
}

// twins starts twins.
type twins struct {
	t      *testing.T
	orders twinOrders

	mu      sync.Mutex
	started []proc.ID
	args    []string
	root    string   // of the last one
	back    []string // places of which something was taken back
}

func (s *twins) Start(ctx context.Context, c vmm.Command) (vmm.Process, error) {
	if err := ctx.Err(); err != nil {
		return vmm.Process{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return vmm.Process{}, err
	}
	o := s.orders
	o.Root = s.t.TempDir()
	text, err := json.Marshal(o)
	if err != nil {
		return vmm.Process{}, err
	}
	cmd := exec.Command(self)
	if len(c.Args) > 0 && c.Args[0] == pager.Subcommand { // the real one
		cmd = exec.Command(self, c.Args...)
		cmd.ExtraFiles = c.Files
	} else {
		cmd.Env = append(os.Environ(), twinVariable+"="+string(text))
	}
	cmd.Stdout, cmd.Stderr = c.Log, c.Log
	pidfd := -1
	cmd.SysProcAttr = &syscall.SysProcAttr{PidFD: &pidfd}
	if err := cmd.Start(); err != nil {
		return vmm.Process{}, err
	}
	reaped := make(chan struct{})
	go func() { cmd.Wait(); close(reaped) }()
	s.t.Cleanup(func() { cmd.Process.Kill(); <-reaped })
	p := vmm.Process{PID: cmd.Process.Pid, PIDFD: os.NewFile(uintptr(pidfd), "pidfd")}
	if p.StartTime, err = proc.StartTime(p.PID); err != nil {
		return p, err
	}
	boot, err := proc.BootID()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, proc.ID{PID: p.PID, StartTime: p.StartTime, BootID: boot})
	s.args, s.root = slices.Clone(c.Args), o.Root
	return p, err
}

// Lend is the jail's work, and tested there.
func (s *twins) Lend(context.Context, vmm.Handle, map[string]*os.File) (func() error, error) {
	return func() error { return nil }, nil
}

func (s *twins) TakeBack(_ context.Context, _ vmm.Handle, places []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back = append(s.back, places...)
	return nil
}

// mustBeOver fails the test if a twin still runs.
func (s *twins) mustBeOver() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.started {
		if id.Alive() {
			s.t.Errorf("process %d still runs", id.PID)
		}
	}
}

func (s *twins) enclosure() vmm.Enclosure {
	return vmm.Enclosure{ID: vmmtest.NextID("exe_"), Dir: s.t.TempDir(), Tap: "tap0", MAC: "06:00:ac:10:00:02", Starter: s}
}

// install writes programs that say a version, as firecracker and its jailer do.
func install(t *testing.T, firecrackerVersion, jailerVersion string) firecracker.Config {
	t.Helper()
	dir := t.TempDir()
	c := firecracker.Config{Program: filepath.Join(dir, "firecracker"), Jailer: filepath.Join(dir, "jailer")}
	for path, says := range map[string]string{c.Program: "Firecracker v" + firecrackerVersion, c.Jailer: "Jailer v" + jailerVersion} {
		syscall.ForkLock.RLock() // a process that begins beside this one would hold the file, and nobody runs what is open for writing
		err := os.WriteFile(path, []byte("#!/bin/sh\necho '"+says+"'\necho\n"), 0o755)
		syscall.ForkLock.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func twinDriver(t *testing.T) *firecracker.Driver {
	t.Helper()
	c := install(t, "1.16.1", "1.16.1")
	var err error
	if c.Pager, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	d, err := firecracker.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
