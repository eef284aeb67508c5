package guest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/space-platform/space/api/link"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/guest/process"
)

func TestExitIsExact(t *testing.T) {
	d := startGuest(t)
	l := d.attach()
	plain := t.TempDir() + "/plain"
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spec   *sessionv1.Spec
		code   int32
		signal int32
		name   string
		err    string // part of it
	}{
		"zero":            {spec: sh("true")},
		"seven":           {spec: sh("exit 7"), code: 7},
		"255":             {spec: sh("exit 255"), code: 255},
		"kill":            {spec: sh("kill -KILL $$"), signal: 9, name: "SIGKILL"},
		"term":            {spec: sh("kill -TERM $$"), signal: 15, name: "SIGTERM"},
		"segv":            {spec: sh("kill -SEGV $$"), signal: 11, name: "SIGSEGV"},
		"137 is a code":   {spec: sh("exit 137"), code: 137},
		"no such program": {spec: &sessionv1.Spec{Argv: []string{"no-such-program"}}, code: 127, err: "not found"},
		"no such path":    {spec: &sessionv1.Spec{Argv: []string{"/no/such/program"}}, code: 127, err: "/no/such/program: no such file or directory"},
		"a long path":     {spec: &sessionv1.Spec{Argv: []string{"/" + strings.Repeat("x", 60_000)}}, code: 126, err: "…: file name too long"},
		"not executable":  {spec: &sessionv1.Spec{Argv: []string{plain}}, code: 126, err: "permission denied"},
		"a directory":     {spec: &sessionv1.Spec{Argv: []string{"/etc"}}, code: 126, err: "is a directory"},
		"unknown user":    {spec: &sessionv1.Spec{Argv: []string{"true"}, User: "nobody-here"}, code: 126, err: `user "nobody-here"`},
		"no directory":    {spec: &sessionv1.Spec{Argv: []string{"true"}, Cwd: "/no/such"}, code: 126, err: `cwd "/no/such"`},
		"relative cwd":    {spec: &sessionv1.Spec{Argv: []string{"true"}, Cwd: "tmp"}, code: 126, err: "absolute"},
		"nothing to run":  {spec: &sessionv1.Spec{}, code: 126, err: "argv"},
		"bad environment": {spec: &sessionv1.Spec{Argv: []string{"true"}, Env: map[string]string{"A=B": ""}}, code: 126, err: "env"},
		"zero byte":       {spec: &sessionv1.Spec{Argv: []string{"true", "a\x00b"}}, code: 126, err: "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			got := d.runOn(l, c.spec).exit
			if got.Code != c.code || got.Signal != c.signal || got.SignalName != c.name {
				t.Errorf("code %d, signal %d %q, want %d, %d %q", got.Code, got.Signal, got.SignalName, c.code, c.signal, c.name)
			}
			if (got.Error == "") != (c.err == "") || !strings.Contains(got.Error, c.err) {
				t.Errorf("error %q, want something with %q", got.Error, c.err)
			}
		})
	}
}

func TestSessionHasWhatProgramsExpect(t *testing.T) {
	d := startGuest(t)
	got := d.run(&sessionv1.Spec{
		Argv: []string{"sh", "-c", `echo "$HOME $USER $LOGNAME $LANG $X"; pwd; id -u; id -g; cat; ps -o sid= -p $$ | tr -d ' '; echo $$; ulimit -c`},
		User: "65534", Cwd: "/tmp", Env: map[string]string{"X": "y", "HOME": "/home/of-x"},
	})
	lines := strings.Split(got.out.String(), "\n")
	want := []string{"/home/of-x nobody nobody C.UTF-8 y", "/tmp", "65534", "65534"}
	for i, w := range want {
		if lines[i] != w {
			t.Errorf("line %d is %q, want %q", i+1, lines[i], w)
		}
	}
	if lines[4] != lines[5] {
		t.Errorf("session id %s of process %s: a session leads its own", lines[4], lines[5])
	}
}

func TestBothStreamsAreWhole(t *testing.T) {
	d := startGuest(t)
	got := d.run(sh(`i=0; while [ $i -lt 500 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done`))
	var out, errs strings.Builder
	for i := range 500 {
		fmt.Fprintf(&out, "out %d\n", i)
		fmt.Fprintf(&errs, "err %d\n", i)
	}
	if got.out.String() != out.String() || got.err.String() != errs.String() {
		t.Errorf("stdout %d bytes, want %d; stderr %d bytes, want %d", got.out.Len(), out.Len(), got.err.Len(), errs.Len())
	}
}

func TestFiftyMegabytesInLittleMemory(t *testing.T) {
	const size = 50 << 20
	d := startGuest(t)
	s := d.open(d.attach(), &guestv1.OpenSession{Session: newID(), Spec: sh(fmt.Sprintf("head -c %d /dev/zero", size))})
	before := live()
	var received, acknowledged, behind, measured, most uint64
	for {
		m, err := d.receive(s)
		if err != nil {
			t.Fatal(err)
		}
		if m.GetExit() != nil {
			break
		}
		received += uint64(len(m.GetOutput().GetData()))
		if behind = received - acknowledged; behind > process.KeptBytes {
			t.Fatalf("%d bytes were sent that aren't acknowledged, more than the guest keeps", behind)
		}
		if behind >= process.KeptBytes-2*process.ChunkBytes { // as late as it goes
			acknowledged = received
			if err := d.acknowledge(s, acknowledged); err != nil {
				t.Fatal(err)
			}
		}
		if received-measured > 5<<20 {
			measured = received
			most = max(most, live())
		}
	}
	if received != size {
		t.Errorf("received %d bytes, want %d", received, size)
	}
	if limit := before + 4<<20; most > limit { // both ends of the link are in this process
		t.Errorf("%d bytes were live in the middle, %d before, want at most %d", most, before, limit)
	}
}

// live is how many bytes of the heap are reachable.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestUnacknowledgedOutputMakesTheCommandWait(t *testing.T) {
	d := startGuest(t)
	mark := t.TempDir() + "/mark"
	s := d.open(d.attach(), &guestv1.OpenSession{Session: newID(), Spec: sh("head -c 1000000 /dev/zero; echo > " + mark)})
	var got uint64
	for got < process.KeptBytes-process.ChunkBytes {
		m, err := d.receive(s)
		if err != nil {
			t.Fatal(err)
		}
		got += uint64(len(m.GetOutput().GetData()))
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command went on although its output was not acknowledged")
	}
	r := &transcript{length: got}
	if err := d.acknowledge(s, got); err != nil {
		t.Fatal(err)
	}
	if err := d.follow(s, r, everything); err != nil {
		t.Fatal(err)
	}
	if r.exit.Offset != 1000000 {
		t.Errorf("the log has %d bytes, want 1000000", r.exit.Offset)
	}
}

func TestReconnectLosesAndRepeatsNothing(t *testing.T) {
	d := startGuest(t)
	o := &guestv1.OpenSession{Session: newID(), Spec: sh("seq 1 300000; exit 3")}
	r := &transcript{}
	for limit := uint64(1000); r.exit == nil; limit = r.length + 150_000 {
		o.Acknowledged = r.length
		l := d.attach()
		if err := d.follow(d.open(l, o), r, limit); err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	lines := strings.Split(r.out.String(), "\n")
	if len(lines) != 300001 {
		t.Fatalf("%d lines, want 300001", len(lines))
	}
	for i, line := range lines[:300000] {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d is %q", i+1, line)
		}
	}
	if r.exit.Code != 3 {
		t.Errorf("code %d, want 3", r.exit.Code)
	}
}

func TestReconnectWithinALinkReplaces(t *testing.T) {
	d := startGuest(t)
	l := d.attach()
	o := &guestv1.OpenSession{Session: newID(), Spec: sh("echo hello; read x < " + fifo(t) + "; echo $x")}
	first := d.open(l, o)
	r := &transcript{}
	if err := d.follow(first, r, 6); err != nil {
		t.Fatal(err)
	}
	o.Acknowledged = 6
	second := d.open(l, o)
	if _, err := d.receive(first); resetCode(err) != link.CodeReplaced {
		t.Errorf("the first stream ended with %v, want a reset because it was replaced", err)
	}
	before := r.opened.StartedUnixNanos
	release(t, o.Spec, "again")
	if err := d.follow(second, r, everything); err != nil {
		t.Fatal(err)
	}
	if r.out.String() != "hello\nagain\n" || r.opened.StartedUnixNanos != before {
		t.Errorf("output %q, started %d and %d", r.out.String(), before, r.opened.StartedUnixNanos)
	}
}

// fifo makes a named pipe for a command to wait at.
func fifo(t *testing.T) string {
	path := t.TempDir() + "/fifo"
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// release writes to the named pipe that a script reads.
func release(t *testing.T, spec *sessionv1.Spec, text string) {
	t.Helper()
	_, path, _ := strings.Cut(spec.Argv[2], "< ")
	path, _, _ = strings.Cut(path, ";")
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, text)
}

func TestStdinIsExact(t *testing.T) {
	d := startGuest(t)
	for _, size := range []int{0, 1, 32 << 10, process.MaxStdin} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			want := make([]byte, size)
			rand.Read(want)
			s := d.open(d.attach(), &guestv1.OpenSession{Session: newID(), Spec: sh("cat"), StdinBytes: uint64(size)})
			sent := make(chan error, 1)
			go func() { sent <- d.sendStdin(s, want, 0) }()
			r := &transcript{}
			if err := d.follow(s, r, everything); err != nil {
				t.Fatal(err)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(r.out.Bytes(), want) {
				t.Errorf("%d bytes came back, want the %d sent", r.out.Len(), size)
			}
		})
	}
}

// sendStdin sends stdin from an offset on, each chunk overlapping the one before.
func (d *guestd) sendStdin(s *link.Stream, data []byte, from int) error {
	const chunk, overlap = 30 << 10, 100
	for at := from; at < len(data); at += chunk {
		begin := max(0, at-overlap)
		c := &guestv1.StdinChunk{Offset: uint64(begin), Data: data[begin:min(len(data), at+chunk)]}
		if err := d.tell(s, &guestv1.ToSession{Message: &guestv1.ToSession_Stdin{Stdin: c}}); err != nil {
			return err
		}
	}
	return nil
}

func TestStdinGoesOnAfterReconnect(t *testing.T) {
	d := startGuest(t)
	want := make([]byte, 300<<10)
	rand.Read(want)
	o := &guestv1.OpenSession{Session: newID(), Spec: sh("cat"), StdinBytes: uint64(len(want))}
	r := &transcript{}
	l := d.attach()
	s := d.open(l, o)
	if err := d.sendStdin(s, want[:100<<10], 0); err != nil {
		t.Fatal(err)
	}
	if err := d.follow(s, r, 50<<10); err != nil {
		t.Fatal(err)
	}
	l.Close()
	o.Acknowledged = r.length
	s = d.open(d.attach(), o)
	m, err := d.receive(s)
	if err != nil {
		t.Fatal(err)
	}
	got := m.GetOpened().GetStdinReceived()
	if got > 100<<10 {
		t.Fatalf("the guest has %d bytes of stdin, more than were sent", got)
	}
	go d.sendStdin(s, want, int(got))
	if err := d.follow(s, r, everything); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(r.out.Bytes(), want) {
		t.Errorf("%d bytes came back, want the %d sent", r.out.Len(), len(want))
	}
}

func TestStdinThatNobodyReadsHoldsNothingUp(t *testing.T) {
	d := startGuest(t)
	s := d.open(d.attach(), &guestv1.OpenSession{Session: newID(), Spec: sh("seq 1 100000"), StdinBytes: process.MaxStdin})
	if err := d.sendStdin(s, make([]byte, process.MaxStdin), 0); err != nil {
		t.Fatal(err)
	}
	r := &transcript{}
	if err := d.follow(s, r, everything); err != nil {
		t.Fatal(err)
	}
	if r.exit.Code != 0 || r.length != 588895 {
		t.Errorf("code %d after %d bytes", r.exit.Code, r.length)
	}
}

func TestWrongStdinEndsTheStreamOnly(t *testing.T) {
	d := startGuest(t)
	l := d.attach()
	for name, c := range map[string]*guestv1.StdinChunk{
		"gap":      {Offset: 5, Data: []byte("x")},
		"too long": {Offset: 0, Data: make([]byte, 11)},
		"wraps":    {Offset: 1<<64 - 1, Data: []byte("x")},
	} {
		t.Run(name, func(t *testing.T) {
			s := d.open(l, &guestv1.OpenSession{Session: newID(), Spec: sh("cat"), StdinBytes: 10})
			if err := d.tell(s, &guestv1.ToSession{Message: &guestv1.ToSession_Stdin{Stdin: c}}); err != nil {
				t.Fatal(err)
			}
			if err := d.follow(s, &transcript{}, everything); resetCode(err) != link.CodeProtocol {
				t.Errorf("the stream ended with %v, want a reset for a protocol error", err)
			}
		})
	}
	d.runOn(l, sh("true"))
}

func TestBackgroundChildDelaysNoExit(t *testing.T) {
	d := startGuest(t)
	for name, script := range map[string]string{
		"silent":   `sleep 1000 & echo $!`,
		"flooding": `yes & echo $! >&2; exec 2>&-`,
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			r := d.run(sh(script))
			pid, err := strconv.Atoi(strings.TrimSpace(r.out.String()))
			if name == "flooding" {
				pid, err = strconv.Atoi(strings.TrimSpace(r.err.String()))
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("the exit took %s", took)
			}
			if err := syscall.Kill(pid, 0); err != nil {
				t.Errorf("the child is gone: %v", err)
			}
		})
	}
}

func TestOrphansAreReaped(t *testing.T) {
	d := startGuest(t)
	spec := sh("(sh -c 'echo $$; exec >&- 2>&-; read x < " + fifo(t) + "; exit 5' &)")
	r := d.run(spec)
	pid, err := strconv.Atoi(strings.TrimSpace(r.out.String()))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the orphan is gone: %v", err)
	}
	release(t, spec, "go")
	for until := time.Now().Add(testLimit); syscall.Kill(pid, 0) == nil; runtime.Gosched() {
		if time.Now().After(until) {
			t.Fatal("the orphan is still a zombie")
		}
	}
}

func TestForget(t *testing.T) {
	d := startGuest(t)
	l := d.attach()
	forget := func(id string) error {
		s := d.call(l, &guestv1.Call{Call: &guestv1.Call_ForgetSession{ForgetSession: &guestv1.ForgetSession{Session: id}}})
		defer s.CloseSend()
		b, err := s.Recv(d.ctx)
		if err != nil {
			return err
		}
		return proto.Unmarshal(b, &guestv1.Forgotten{})
	}
	if err := forget("ses_unknown"); err != nil {
		t.Errorf("an unknown session: %v", err)
	}
	o := &guestv1.OpenSession{Session: newID(), Spec: sh("read x < " + fifo(t) + "; echo $x")}
	s := d.open(l, o)
	if _, err := d.receive(s); err != nil {
		t.Fatal(err)
	}
	if err := forget(o.Session); resetCode(err) != link.CodeRefused {
		t.Errorf("a running session: %v, want it refused", err)
	}
	release(t, o.Spec, "end")
	if err := d.follow(s, &transcript{}, everything); err != nil {
		t.Fatal(err)
	}
	if err := forget(o.Session); err != nil {
		t.Errorf("an ended session: %v", err)
	}
	o.Spec = sh("echo anew")
	r := &transcript{}
	if err := d.follow(d.open(l, o), r, everything); err != nil {
		t.Fatal(err)
	}
	if r.out.String() != "anew\n" {
		t.Errorf("after it was forgotten the session printed %q", r.out.String())
	}
}

func TestQuiesceAndNonsense(t *testing.T) {
	d := startGuest(t)
	l := d.attach()
	for name, c := range map[string]struct {
		call *guestv1.Quiesce
		done *atomic.Int64
	}{
		"write out": {&guestv1.Quiesce{WriteOutOnly: true}, &d.wroteOut}, "freeze": {&guestv1.Quiesce{FreezeOnly: true}, &d.frozen}, "both": {&guestv1.Quiesce{}, &d.quiesced},
	} {
		before := d.wroteOut.Load() + d.frozen.Load() + d.quiesced.Load()
		s := d.call(l, &guestv1.Call{Call: &guestv1.Call_Quiesce{Quiesce: c.call}})
		if _, err := s.Recv(d.ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.CloseSend()
		if after := d.wroteOut.Load() + d.frozen.Load() + d.quiesced.Load(); c.done.Load() != 1 || after != before+1 {
			t.Errorf("%s: it was done %d times, and %d other things", name, c.done.Load(), after-before-1)
		}
	}
	d.unwritten.Store(&os.PathError{Op: "syncfs", Err: syscall.EIO})
	s := d.call(l, &guestv1.Call{Call: &guestv1.Call_Quiesce{Quiesce: &guestv1.Quiesce{}}})
	if _, err := s.Recv(d.ctx); resetCode(err) != link.CodeInternal {
		t.Errorf("a disk that fails: %v, want an error for who doesn't ask for it", err)
	}
	s = d.call(l, &guestv1.Call{Call: &guestv1.Call_Quiesce{Quiesce: &guestv1.Quiesce{TellUnwritten: true}}})
	answer := new(guestv1.Quiesced)
	if b, err := s.Recv(d.ctx); err != nil || proto.Unmarshal(b, answer) != nil || answer.GetUnwritten() != uint32(syscall.EIO) {
		t.Errorf("a disk that fails: %v, %v", answer, err)
	}
	s.CloseSend()
	if _, err := d.call(l, &guestv1.Call{}).Recv(d.ctx); resetCode(err) != link.CodeRefused {
		t.Errorf("an empty call: %v, want it refused", err)
	}
	s, err := l.Open(d.ctx, []byte("\xff\xff\xff"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(d.ctx); resetCode(err) != link.CodeProtocol {
		t.Errorf("nonsense: %v, want a protocol error", err)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	d := startGuest(t)
	l := d.attach()
	var streams []*link.Stream
	for range process.MaxSessions {
		s := d.open(l, &guestv1.OpenSession{Session: newID(), Spec: &sessionv1.Spec{Argv: []string{"sleep", "1000"}}})
		if _, err := d.receive(s); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	if err := d.follow(d.open(l, &guestv1.OpenSession{Session: newID(), Spec: sh("true")}), &transcript{}, everything); resetCode(err) != link.CodeRefused {
		t.Errorf("one more than the limit: %v, want it refused", err)
	}
	d.table.KillAll()
	for _, s := range streams {
		r := &transcript{}
		if err := d.follow(s, r, everything); err != nil || r.exit.SignalName != "SIGKILL" {
			t.Fatalf("a killed session: %v, %v", err, r.exit)
		}
	}
	d.runOn(l, sh("true")) // the oldest has made room
}

func TestGoroutinesEndWithTheirSession(t *testing.T) {
	d := startGuest(t)
	l := d.attach()
	d.runOn(l, sh("true"))
	before := runtime.NumGoroutine()
	for range 20 {
		d.runOn(l, sh("echo x; echo y >&2"))
	}
	for until := time.Now().Add(testLimit); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(until) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
