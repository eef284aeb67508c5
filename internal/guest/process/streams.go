package process

import (
	"fmt"
	"os"
	"time"

	"github.com/space-platform/space/internal/guest/account"
)

// streams are the ends of a session's standard streams.
type streams struct {
	child  [3]*os.File // the command's; with a terminal all the same
	stdin  *os.File    // nil if there is none to feed
	stdout *os.File    // with a terminal the same as stdin
	stderr *os.File    // nil with a terminal
	tty    bool
}

// openStreams makes them for a command.
func openStreams(spec Spec, user account.Account) (streams, error) {
	if spec.Terminal == nil {
		p, err := openPipes(spec.StdinBytes > 0 || spec.OpenStdin)
		if err != nil {
			return p, fmt.Errorf("make the session's pipes: %w", err)
		}
		return p, nil
	}
	master, slave, err := openTerminal(*spec.Terminal, user)
	if err != nil {
		return streams{}, fmt.Errorf("make the session's terminal: %w", err)
	}
	return streams{child: [3]*os.File{slave, slave, slave}, stdin: master, stdout: master, tty: true}, nil
}

// openPipes makes pipes. Without stdin the command gets /dev/null.
func openPipes(stdin bool) (p streams, err error) {
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if stdin {
		p.child[0], p.stdin, err = os.Pipe()
	} else {
		p.child[0], err = os.Open(os.DevNull)
	}
	if err != nil {
		return p, err
	}
	if p.stdout, p.child[1], err = os.Pipe(); err != nil {
		return p, err
	}
	p.stderr, p.child[2], err = os.Pipe()
	return p, err
}

// closeChild closes the ends that the command has now. A terminal's stays open until the command has ended: a program that closes its streams
// before it ends, as cat does, would leave the terminal with no end, its output would be taken for over, and the hangup would kill the program.
func (p streams) closeChild() {
	for _, f := range p.child {
		f.Close() // nil is refused, and so is what was closed; nothing more
	}
}

func (p streams) close() {
	p.closeChild()
	p.stdin.Close()
	p.stdout.Close()
	p.stderr.Close()
}

// input is what stdin is written to.
type input struct {
	*os.File
	finish func(last byte, ended <-chan struct{}) // tells the command, unless it has ended, that nothing follows, after the last byte that was written
}

func (p streams) input() input {
	if p.tty {
		return input{p.stdin, func(last byte, ended <-chan struct{}) { finishTerminal(p.stdin, last, ended) }}
	}
	return input{p.stdin, func(byte, <-chan struct{}) { p.stdin.Close() }}
}

// stopInput ends whoever writes to the command, which has ended. A terminal stays open: its output is still read.
func (p streams) stopInput() {
	if p.tty {
		p.stdin.SetWriteDeadline(time.Unix(1, 0))
		return
	}
	p.stdin.Close()
}
