package guest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/guest/process"
)

// talk is a session that is talked to while it runs.
type talk struct {
	*guestd
	s *link.Stream
	transcript
	stdin *guestv1.StdinState
	sent  int
}

func (d *guestd) talk(spec *sessionv1.Spec) *talk {
	return d.talkOn(d.attach(), &guestv1.OpenSession{Session: newID(), Spec: spec})
}

func (d *guestd) talkOn(l *link.Link, o *guestv1.OpenSession) *talk {
	d.t.Helper()
	s := &talk{guestd: d, s: d.open(l, o), transcript: transcript{length: o.Acknowledged}, stdin: &guestv1.StdinState{}}
	s.until(func() bool { return s.opened != nil })
	return s
}

// until reads until something is so.
func (s *talk) until(so func() bool) {
	s.t.Helper()
	for !so() {
		m, err := s.receive(s.s)
		if err != nil {
			s.t.Fatalf("%v after %q", err, s.out.String())
		}
		if m.GetStdin() != nil {
			s.stdin = m.GetStdin()
		}
		if err := s.take(m); err != nil {
			s.t.Fatal(err)
		}
		if m.GetOutput() != nil {
			s.acknowledge(s.s, s.length)
		}
	}
}

func (s *talk) untilPrinted(text string) {
	s.t.Helper()
	s.until(func() bool { return strings.Contains(s.out.String(), text) })
}

func (s *talk) untilExit() *sessionv1.Exit {
	s.t.Helper()
	s.until(func() bool { return s.exit != nil })
	if _, err := s.receive(s.s); err != io.EOF {
		s.t.Fatalf("after the exit: %v", err)
	}
	s.s.CloseSend()
	return s.exit
}

func (s *talk) tellAll(messages ...*guestv1.ToSession) {
	s.t.Helper()
	for _, m := range messages {
		if err := s.tell(s.s, m); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *talk) write(text string, end bool) {
	s.t.Helper()
	s.tellAll(stdinAt(s.sent, []byte(text), end))
	s.sent += len(text)
}

func stdinAt(offset int, data []byte, end bool) *guestv1.ToSession {
	return &guestv1.ToSession{Message: &guestv1.ToSession_Stdin{Stdin: &guestv1.StdinChunk{Offset: uint64(offset), Data: data, End: end}}}
}

func signal(sig syscall.Signal) *guestv1.ToSession {
	return &guestv1.ToSession{Message: &guestv1.ToSession_Signal{Signal: int32(sig)}}
}

func resize(rows, cols uint32) *guestv1.ToSession {
	return &guestv1.ToSession{Message: &guestv1.ToSession_Resize{Resize: &sessionv1.Terminal{Rows: rows, Cols: cols}}}
}

func inTerminal(script string) *sessionv1.Spec {
	spec := sh(script)
	spec.Tty = &sessionv1.Terminal{Rows: 24, Cols: 80}
	return spec
}

func withOpenStdin(script string) *sessionv1.Spec {
	spec := sh(script)
	spec.OpenStdin = true
	return spec
}

func TestOpenStdinIsTalkedTo(t *testing.T) {
	d := startGuest(t)
	s := d.talk(withOpenStdin("while read x; do echo got $x; done; echo end"))
	s.write("a\n", false)
	s.untilPrinted("got a")
	s.write("b\n", false)
	s.untilPrinted("got b")
	s.tellAll(stdinAt(0, []byte("a\nb\n"), false)) // once more: a host that came back
	s.write("", true)
	s.tellAll(stdinAt(s.sent, nil, true))
	if e := s.untilExit(); e.Code != 0 || s.out.String() != "got a\ngot b\nend\n" {
		t.Errorf("%v, %q", e, s.out.String())
	}
}

// TestOpenStdinOfAnyLength: 8 MiB through cat, sent as the guest makes room, are the same on the other side.
func TestOpenStdinOfAnyLength(t *testing.T) {
	d := startGuest(t)
	want := make([]byte, 8<<20)
	rand.Read(want)
	s := d.talk(withOpenStdin("cat"))
	for s.sent < len(want) {
		n := min(len(want)-s.sent, 32<<10, int(s.stdin.Taken)+process.StdinWindow-s.sent)
		if n == 0 {
			taken := s.stdin.Taken
			s.until(func() bool { return s.stdin.Taken > taken })
			continue
		}
		s.write(string(want[s.sent:s.sent+n]), s.sent+n == len(want))
	}
	s.untilExit()
	if !bytes.Equal(s.out.Bytes(), want) {
		t.Errorf("%d bytes came back, want the %d sent", s.out.Len(), len(want))
	}
}

func TestOpenStdinThatNobodyReads(t *testing.T) {
	d := startGuest(t)
	s := d.talk(withOpenStdin("exec <&-; read x < " + fifo(t) + "; exit 3"))
	for !s.stdin.Closed { // it's noticed when something is written
		s.write("x", false)
		s.until(func() bool { return s.stdin.Closed || s.stdin.Taken == uint64(s.sent) })
	}
	for range 40 { // more than the window: it's dropped
		s.write(strings.Repeat("x", 32<<10), false)
	}
	s.until(func() bool { return s.stdin.Taken == uint64(s.sent) })
	s.tellAll(signal(syscall.SIGKILL))
	s.untilExit()
}

func TestWrongOpenStdinEndsTheStreamOnly(t *testing.T) {
	d := startGuest(t)
	l := d.attach()
	for name, m := range map[string][]*guestv1.ToSession{
		"gap":           {stdinAt(5, []byte("x"), false)},
		"after the end": {stdinAt(0, []byte("x"), true), stdinAt(1, []byte("x"), false)},
		"end before":    {stdinAt(0, []byte("xxx"), false), stdinAt(1, []byte("x"), true)},
		"too much":      {stdinAt(0, make([]byte, process.StdinWindow+1), false)},
		"no signal":     {signal(0)},
		"signal 65":     {signal(65)},
		"no terminal":   {resize(1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			s := d.open(l, &guestv1.OpenSession{Session: newID(), Spec: withOpenStdin("sleep 1000")})
			for _, m := range m {
				if err := d.tell(s, m); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.follow(s, &transcript{}, everything); resetCode(err) != link.CodeProtocol {
				t.Errorf("the stream ended with %v, want a reset for a protocol error", err)
			}
		})
	}
}

// TestOpenStdinGoesOnAfterReconnect: what the guest said it has received needn't be sent again.
func TestOpenStdinGoesOnAfterReconnect(t *testing.T) {
	d := startGuest(t)
	l := d.attach()
	o := &guestv1.OpenSession{Session: newID(), Spec: withOpenStdin("cat")}
	s := d.talkOn(l, o)
	s.write("first ", false)
	s.until(func() bool { return s.stdin.Received == 6 && s.length == 6 })
	l.Close()
	o.Acknowledged = s.length
	again := d.talkOn(d.attach(), o)
	if again.opened.StdinReceived != 6 || again.opened.Pid != s.opened.Pid || again.opened.Pid == 0 {
		t.Errorf("%v, before %v", again.opened, s.opened)
	}
	again.sent = 6
	again.write("second", true)
	again.untilExit()
	if got := s.out.String() + again.out.String(); got != "first second" {
		t.Errorf("%q", got)
	}
}

func TestTerminal(t *testing.T) {
	d := startGuest(t)
	spec := inTerminal(`tty -s && echo terminal $TERM; stty size; ps -o stat= -p $$; stat -c %u $(tty); echo ready; while read x; do echo "<$x>"; done; stty size; echo end >&2`)
	spec.User = "65534"
	s := d.talk(spec)
	s.untilPrinted("ready")
	got := strings.Fields(s.out.String())
	if want := []string{"terminal", "xterm-256color", "24", "80"}; fmt.Sprint(got[:4]) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
	if !strings.Contains(got[4], "s") || !strings.Contains(got[4], "+") {
		t.Errorf("process state %s: want a session leader in the foreground", got[4])
	}
	if got[5] != "65534" {
		t.Errorf("the terminal belongs to %s", got[5])
	}
	s.tellAll(resize(50, 132))
	s.write("x\n", false)
	s.untilPrinted("<x>")
	s.write("", true)
	if e := s.untilExit(); e.Code != 0 || !strings.HasSuffix(s.out.String(), "50 132\r\nend\r\n") || s.err.Len() > 0 {
		t.Errorf("%v, %q, stderr %q", e, s.out.String(), s.err.String())
	}
}

func TestTerminalTellsItsSize(t *testing.T) {
	d := startGuest(t)
	s := d.talk(inTerminal("trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.01; done"))
	s.untilPrinted("ready")
	s.tellAll(resize(7, 9))
	if e := s.untilExit(); e.Code != 0 || !strings.HasSuffix(s.out.String(), "7 9\r\n") {
		t.Errorf("%v, %q", e, s.out.String())
	}
}

func TestTerminalKeys(t *testing.T) {
	d := startGuest(t)
	s := d.talk(inTerminal("cat"))
	s.write("half", true) // an end in the middle of a line
	if e := s.untilExit(); e.Code != 0 || s.out.String() != "halfhalf" {
		t.Errorf("%v, %q", e, s.out.String())
	}
	s = d.talk(inTerminal("echo ready; exec sleep 1000"))
	s.untilPrinted("ready")
	s.write("\x03", false)
	if e := s.untilExit(); e.SignalName != "SIGINT" {
		t.Errorf("%v, want SIGINT", e)
	}
}

// TestTerminalEndsForWhoReadsLater: a program that reads keys takes the sign of the end for one of them, and the next one still finds the end.
func TestTerminalEndsForWhoReadsLater(t *testing.T) {
	d := startGuest(t)
	s := d.talk(inTerminal("stty -icanon min 1; echo keys; dd bs=1 count=1 2>/dev/null | od -An -tu1; stty icanon; cat; echo end"))
	s.untilPrinted("keys")
	s.write("", true)
	if e := s.untilExit(); e.Code != 0 || !strings.HasSuffix(s.out.String(), " 4\r\nend\r\n") {
		t.Errorf("%v, %q", e, s.out.String())
	}
}

// lineEditor reads keys as a shell's editor of lines does, after something that reads nothing: it ends with the end of input in an empty line.
const lineEditor = `
system("echo ready; sleep 0.8"); system("stty -icanon -echo"); my $line = "";
while (sysread(STDIN, my $key, 1)) {
	if ($key eq "\x04") { if ($line eq "") { print "bye\n"; exit 0 } }
	elsif ($key eq "\x15") { $line = "" }
	else { $line .= $key }
}`

// TestTerminalEndsForAnEditorOfLines: signs that were typed while nobody read stand in its line as text, and it ends all the same.
func TestTerminalEndsForAnEditorOfLines(t *testing.T) {
	d := startGuest(t)
	spec := inTerminal("")
	spec.Argv = []string{"perl", "-e", lineEditor}
	s := d.talk(spec)
	s.untilPrinted("ready")
	s.write("", true)
	if e := s.untilExit(); e.Code != 0 || !strings.HasSuffix(s.out.String(), "bye\r\n") {
		t.Errorf("%v, %q", e, s.out.String())
	}
}

// TestTerminalOfOneProgram: a program that is itself the terminal's session leader ends as it does.
func TestTerminalOfOneProgram(t *testing.T) {
	d := startGuest(t)
	spec := inTerminal("")
	spec.Argv = []string{"cat"}
	s := d.talk(spec)
	s.write("line\n", true)
	if e := s.untilExit(); e.Code != 0 || e.SignalName != "" || s.out.String() != "line\r\nline\r\n" {
		t.Errorf("%v, %q", e, s.out.String())
	}
}

// TestTerminalLosesNothing: all that is printed before the end arrives, however late it's read.
func TestTerminalLosesNothing(t *testing.T) {
	d := startGuest(t)
	s := d.talk(inTerminal("stty -opost; seq 1 200000"))
	s.untilExit()
	lines := strings.Split(strings.TrimSuffix(s.out.String(), "\n"), "\n")
	if len(lines) != 200000 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d is %q", i+1, line)
		}
	}
}

func TestTerminalHangsUp(t *testing.T) {
	d := startGuest(t)
	s := d.talk(inTerminal(`stty -echo; sh -c 'echo $$; exec sleep 1000' & sh -c 'trap "" HUP; echo $$; exec sleep 1000' & read x`))
	s.until(func() bool { return strings.Count(s.out.String(), "\n") == 2 })
	s.write("\n", false)
	s.untilExit()
	pids := strings.Fields(s.out.String())
	one, other := atoi(t, pids[0]), atoi(t, pids[1]) // in any order
	t.Cleanup(func() { syscall.Kill(one, syscall.SIGKILL); syscall.Kill(other, syscall.SIGKILL) })
	alive := func(pid int) bool { return syscall.Kill(pid, 0) == nil }
	for until := time.Now().Add(testLimit); alive(one) && alive(other); {
		if time.Now().After(until) {
			t.Fatal("nobody was hung up")
		}
	}
	if !alive(one) && !alive(other) {
		t.Error("who ignores the hang-up is gone")
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// gone waits for the end of a process.
func gone(t *testing.T, pid int) {
	t.Helper()
	for until := time.Now().Add(testLimit); syscall.Kill(pid, 0) == nil; {
		if time.Now().After(until) {
			t.Fatalf("process %d lives on", pid)
		}
	}
}

func TestTerminalOfWrongSize(t *testing.T) {
	d := startGuest(t)
	for _, size := range []*sessionv1.Terminal{{}, {Rows: 1001, Cols: 1}, {Rows: 1, Cols: 1 << 31}} {
		spec := sh("true")
		spec.Tty = size
		if e := d.talk(spec).untilExit(); e.Code != 126 || !strings.Contains(e.Error, "tty") {
			t.Errorf("%v: %v", size, e)
		}
	}
}

func TestSignalsReachTheProcessGroup(t *testing.T) {
	d := startGuest(t)
	s := d.talk(sh("trap 'echo hup; exit 4' HUP; sh -c 'echo $$; exec sleep 1000' & wait"))
	s.untilPrinted("\n")
	child := atoi(t, strings.TrimSpace(s.out.String()))
	s.tellAll(signal(syscall.SIGHUP))
	if e := s.untilExit(); e.Code != 4 || !strings.HasSuffix(s.out.String(), "hup\n") {
		t.Errorf("%v, %q", e, s.out.String())
	}
	gone(t, child)
	s = d.talk(sh("exec sleep 1000"))
	s.tellAll(signal(syscall.SIGSTOP), signal(syscall.SIGKILL))
	if e := s.untilExit(); e.SignalName != "SIGKILL" || e.TimedOut {
		t.Errorf("%v", e)
	}
}

func TestTimeoutEndsTheProcessGroup(t *testing.T) {
	d := startGuest(t)
	for name, c := range map[string]struct {
		script string
		signal string
		code   int32
	}{
		"that ends politely":       {"sleep 1000 & echo $!; wait", "SIGTERM", 0},
		"that has last words":      {"trap 'exit 9' TERM; sleep 1000 & echo $!; wait", "", 9},
		"that doesn't want to":     {"trap '' TERM; sleep 1000 & echo $!; wait", "SIGKILL", 0},
		"whose child doesn't want": {"(trap '' TERM; exec sleep 1000) & echo $!; wait", "SIGTERM", 0},
		"that is stopped":          {"sleep 1000 & echo $!; kill -STOP $$", "SIGTERM", 0},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sh(c.script)
			spec.Timeout = durationpb.New(200 * time.Millisecond)
			s := d.talk(spec)
			e := s.untilExit()
			if !e.TimedOut || e.SignalName != c.signal || e.Code != c.code {
				t.Errorf("%v", e)
			}
			gone(t, atoi(t, strings.TrimSpace(s.out.String())))
		})
	}
	spec := sh("exit 5")
	spec.Timeout = durationpb.New(time.Minute)
	if e := d.talk(spec).untilExit(); e.TimedOut || e.Code != 5 {
		t.Errorf("in time: %v", e)
	}
}
