package template

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/host/session"
)

// shell runs what steps and commands say.
const shell = "/bin/sh"

// maxTail bounds what an error repeats of a command's output, in lines.
const maxTail = 10

// runStep runs or copies in a machine of its own.
func (b *builder) runStep(ctx context.Context, p planned) error {
	err := b.inMachine(ctx, "", func(ctx context.Context, g guest) error {
		if err := b.makeWorkdirs(ctx, g.link); err != nil {
			return err
		}
		var err error
		if p.step.Copy != nil {
			err = blameCopy(p.number, b.copyInto(ctx, g.link, *p.step.Copy))
		} else {
			b.said("run " + firstLine(p.step.Run))
			err = b.command(ctx, g.sessions, p.step.Run)
		}
		if err == nil {
			err = g.rest(ctx)
		}
		if err == nil {
			err = g.end(ctx)
		}
		return err
	})
	var e *space.Error
	if errors.As(err, &e) && e.Field == "" {
		e.Field = fmt.Sprintf("steps[%d]", p.number-1)
	}
	return err
}

// blameCopy says by the order's field whose fault a failed copy is: the guest knows only its own call's fields.
func blameCopy(step int, err error) error {
	var e *space.Error
	if !errors.As(err, &e) {
		return err
	}
	field := fmt.Sprintf("steps[%d]", step-1)
	switch e.Field {
	case "owner", "group":
		field += ".copy.owner"
	case "path":
		field += ".copy.to"
	}
	return &space.Error{Code: e.Code, Field: field, Message: e.Message, Err: err}
}

// maxShown bounds what a log repeats of a command, in bytes.
const maxShown = 200

func firstLine(s string) string {
	s = strings.TrimSpace(s)
	line, rest, _ := strings.Cut(s, "\n")
	if len(line) > maxShown {
		return strings.ToValidUTF8(line[:maxShown], "") + " …"
	}
	if rest != "" {
		return line + " …"
	}
	return line
}

// spec is a shell command in today's environment.
func (b *builder) spec(command string) *sessionv1.Spec {
	return shellSpec(b.state, command)
}

// command runs a shell command to its end, and logs what it prints. It must succeed.
func (b *builder) command(ctx context.Context, sessions *session.Set, command string) error {
	var tail []string
	missed := false
	exit, err := follow(ctx, sessions, b.spec(command), func(line string) {
		b.log(b.step, line)
		missed = missed || missedNetwork.MatchString(line)
		tail = append(tail, line)
		tail = tail[max(0, len(tail)-maxTail):]
	})
	if err != nil {
		return err
	}
	return explained(exitError(exit, tail), missed)
}

// explained adds to the failure of a command that has looked for a network why there's none.
func explained(err error, missed bool) error {
	if err == nil || !missed {
		return err
	}
	return space.Errorf(space.CodeGuest, "%s\n%s", messageOf(err), noNetwork)
}

// missedNetwork finds what programs print that look for a network in vain.
var missedNetwork = regexp.MustCompile(`(?i)failure resolving|name resolution|could not resolve|name or service not known|network is unreachable|ENOTFOUND|EAI_AGAIN`)

// noNetwork is what their user is told.
const noNetwork = "The commands of a build have no network: put what they'd fetch into the image that the template begins with, or copy it."

// exitError is nil if a command has succeeded.
func exitError(exit *sessionv1.Exit, tail []string) error {
	switch {
	case exit.GetError() != "":
		return space.Errorf(space.CodeGuest, "it couldn't be started: %s", exit.GetError())
	case exit.GetSignal() != 0:
		return withTail("it was ended by "+exit.GetSignalName(), tail)
	case exit.GetCode() != 0:
		return withTail(fmt.Sprintf("it ended with status %d", exit.GetCode()), tail)
	}
	return nil
}

// withTail is an error that repeats what a command printed last.
func withTail(what string, tail []string) error {
	if len(tail) > 0 {
		what += "; it printed last: " + strings.Join(tail, "\n")
	}
	return space.Errorf(space.CodeGuest, "%s", what)
}

// follow runs a session to its end.
func follow(ctx context.Context, sessions *session.Set, spec *sessionv1.Spec, emit func(line string)) (*sessionv1.Exit, error) {
	r := session.Request{Session: space.NewID(space.PrefixSession), Spec: spec}
	return attach(ctx, sessions, r, emit)
}

// attach starts or joins a session and follows it to its end.
func attach(ctx context.Context, sessions *session.Set, r session.Request, emit func(line string)) (*sessionv1.Exit, error) {
	var exit *sessionv1.Exit
	w := lineWriter{emit: emit}
	err := sessions.Attach(ctx, r, func(e *sessionv1.AttachResponse) error {
		w.Write(e.GetOutput().GetData())
		if e.GetExit() != nil {
			exit = e.GetExit()
		}
		return nil
	})
	w.close()
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case exit == nil:
		return nil, space.Errorf(space.CodeGuest, "the command was lost")
	}
	return exit, nil
}
