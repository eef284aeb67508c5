package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/client"
)

// showSession shows a session's events until it has ended, and returns how the program should end.
func showSession(events iter.Seq2[client.Event, error], show shower) error {
	for e, err := range events {
		if err != nil {
			return exitCode{exitPlatform, err}
		}
		if err := show(e); err != nil {
			return exitCode{exitPlatform, err}
		}
		switch e.Type {
		case client.EventExit:
			return ending(e.Exit)
		case client.EventLost:
			return exitCode{exitPlatform, e.Lost}
		}
	}
	return exitCode{exitPlatform, errors.New("the command's events ended without an exit")}
}

// ending turns a process's end into ours.
func ending(e client.Exit) error {
	switch {
	case e.Error != "":
		return exitCode{e.Code, &cliError{code: "guest_error", message: e.Error, hint: "check the program's name, its mode and --workdir and --user"}}
	case e.TimedOut:
		return exitCode{exitTimeout, nil}
	case e.Signal != "":
		if n := unix.SignalNum(e.Signal); n != 0 {
			return exitCode{exitSignal + int(n), nil}
		}
		return exitCode{exitPlatform, fmt.Errorf("the command was ended by %s", e.Signal)}
	case e.Code != 0:
		return exitCode{e.Code, nil}
	default:
		return nil
	}
}

// shower shows an event of a session.
type shower func(client.Event) error

// plain writes output where it belongs, byte by byte as it is, and says on stderr what was dropped.
func plain(stdout, stderr io.Writer) shower {
	return func(e client.Event) error {
		var err error
		switch e.Type {
		case client.EventStdout:
			_, err = stdout.Write(e.Data)
		case client.EventStderr:
			_, err = stderr.Write(e.Data)
		case client.EventGap:
			_, err = fmt.Fprintf(stderr, "space: %d bytes of output were dropped while nobody was attached\n", e.Offset-e.From)
		case client.EventExit:
			_, err = fmt.Fprint(stderr, why(e.Exit))
		}
		return err
	}
}

// why says what ended a command if it wasn't the command itself.
func why(e client.Exit) string {
	switch {
	case e.TimedOut:
		return "space: the command's time was over\n"
	case e.Stopped:
		return "space: the command ended with its sandbox, which was stopped\n"
	default:
		return ""
	}
}

// losses remembers what was dropped of the output that is shown: who reads it must not take it for whole.
type losses struct {
	shown   bool // something was
	joined  bool // somebody began the session earlier, and what was dropped before anything is shown went while nobody was attached
	from    bool // --from says where to begin, and what is missing after it is a loss; who joins without it takes what is kept
	dropped int64
	before  int64 // of dropped, what went before anything was shown to who joined
}

// watch notes what was dropped, and goes on.
func (l *losses) watch(show shower) shower {
	return func(e client.Event) error {
		switch {
		case e.Type == client.EventGap && l.joined && !l.shown && !l.from:
		case e.Type == client.EventGap:
			l.dropped += e.Offset - e.From
			if l.joined && !l.shown {
				l.before += e.Offset - e.From
			}
		case len(e.Data) > 0:
			l.shown = true
		}
		return show(e)
	}
}

// ending makes a loss the ending's error; how the command ended is told in it.
func (l *losses) ending(command error) error {
	if l.dropped == 0 {
		return command
	}
	end := "the command ended well"
	if command != nil {
		end = "the command's own end: " + command.Error()
	}
	hint := "read the output faster, or let the command write a file: whoever takes nothing for long is cut off, and 16 MiB are kept meanwhile"
	if l.before > 0 {
		hint = "nobody was attached, and of what the command wrote then the oldest bytes were dropped; 'space attach' without --from shows what is kept"
	}
	return exitCode{exitPlatform, &cliError{code: "output_lost", message: fmt.Sprintf("%d bytes of output are missing; %s", l.dropped, end), hint: hint}}
}

// event is a client.Event as -o json shows it, one a line: the words of the API's stream, with output in base64.
type event struct {
	Event    client.EventType `json:"event"`
	Offset   int64            `json:"offset"`
	Data     []byte           `json:"data,omitempty"`
	From     *int64           `json:"from,omitempty"`
	Code     *int             `json:"code,omitempty"`
	Signal   string           `json:"signal,omitempty"`
	TimedOut bool             `json:"timed_out,omitempty"`
	Stopped  bool             `json:"stopped,omitempty"`
	Error    string           `json:"error,omitempty"`
}

func lines(stdout io.Writer) shower {
	enc := json.NewEncoder(stdout)
	return func(e client.Event) error {
		out := event{Event: e.Type, Offset: e.Offset, Data: e.Data, Signal: e.Exit.Signal, TimedOut: e.Exit.TimedOut, Stopped: e.Exit.Stopped, Error: e.Exit.Error}
		switch e.Type {
		case client.EventGap:
			out.From = &e.From
		case client.EventExit:
			if e.Exit.Signal == "" {
				out.Code = &e.Exit.Code
			}
		case client.EventLost:
			out.Error = e.Lost.Code
		}
		return enc.Encode(out)
	}
}

func (n *connection) shower(stdout, stderr io.Writer) shower {
	if n.json() {
		return lines(stdout)
	}
	return plain(stdout, stderr)
}
