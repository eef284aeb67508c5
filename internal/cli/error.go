package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/space-platform/space/client"
)

// The exit codes that don't come from a command in a sandbox.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitPlatform = 125
	exitSignal   = 128 // plus the signal's number
)

// exitCode ends the program with a code. Its error, if any, is shown.
type exitCode struct {
	code int
	err  error
}

func (e exitCode) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitCode) Unwrap() error { return e.err }

// cliError is an error of the CLI's own, with the next step.
type cliError struct {
	code, message, hint string
}

func (e *cliError) Error() string { return e.message }

// failed marks the errors of commands; what isn't marked came from parsing the command line.
type failed struct{ err error }

func (f failed) Error() string { return f.err.Error() }
func (f failed) Unwrap() error { return f.err }

// shown is an error as people and programs see it.
type shown struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Hint      string `json:"hint,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// explain gives an error its code and its next step.
func explain(err error) shown {
	var own *cliError
	var refused *client.Error
	var transport net.Error
	switch {
	case errors.As(err, &own):
		return shown{Code: own.code, Message: own.message, Hint: own.hint}
	case errors.As(err, &refused):
		return shown{Code: refused.Code, Message: withoutCode(err, refused), Hint: hints[refused.Code], RequestID: refused.RequestID}
	case errors.Is(err, context.Canceled):
		return shown{Code: "interrupted", Message: err.Error()}
	case errors.As(err, &transport):
		return shown{Code: "unavailable", Message: err.Error(), Hint: hints["unavailable"]}
	default:
		return shown{Code: "failed", Message: err.Error()}
	}
}

// hints are the next steps for the codes that have one which is always right.
var hints = map[string]string{
	"unauthenticated":    "check SPACE_API_KEY and the configuration file, or SPACE_SANDBOX_TOKEN; 'space up' writes a new key for a platform on this machine",
	"not_found":          "'space sandbox ls' and 'space template ls' show what there is",
	"template_not_ready": "'space template ls' shows its state, 'space template logs NAME' its build",
	"quota_exceeded":     "'space project get' shows what the project uses of its quota",
	"capacity_exhausted": "delete sandboxes that aren't needed: 'space sandbox ls', 'space sandbox rm ID'",
	"execution_lost":     "'space sandbox get ID' shows what became of the sandbox; a lost or stopped one starts from its disk: 'space sandbox start ID'",
	"session_lost":       "nothing more of the session is kept; 'space ps SANDBOX' lists those that there are, 'space sandbox get SANDBOX' shows how the sandbox is",
	"unavailable":        "'space status' shows whether the platform runs here; 'space up' starts it",
	"internal":           "the operator's log has the cause: 'space logs'",
}

// withoutCode is what was being done and the refusal's text, without the code that stands before it already.
func withoutCode(err error, refused *client.Error) string {
	text := refused.Detail
	if refused.Field != "" {
		text = refused.Field + ": " + text
	}
	full, tail := err.Error(), refused.Error()
	if len(full) > len(tail) && full[len(full)-len(tail):] == tail {
		return full[:len(full)-len(tail)] + text
	}
	return text
}

// report shows an error and returns the exit code.
func report(to io.Writer, err error, asJSON bool) int {
	if err == nil {
		return 0
	}
	code := exitFailed
	var s shown
	var exit exitCode
	switch {
	case errors.As(err, &exit):
		if code = exit.code; exit.err == nil {
			return code
		}
		s = explain(exit.err)
	case errors.As(err, new(failed)):
		s = explain(err)
	default:
		code, s = exitUsage, shown{Code: "usage", Message: err.Error(), Hint: "add --help to see how a command is used"}
	}
	s.show(to, asJSON)
	return code
}

func (s shown) show(to io.Writer, asJSON bool) {
	if asJSON {
		json.NewEncoder(to).Encode(map[string]shown{"error": s})
		return
	}
	fmt.Fprintf(to, "error: %s: %s\n", s.Code, s.Message)
	if s.RequestID != "" {
		fmt.Fprintf(to, "request: %s\n", s.RequestID)
	}
	if s.Hint != "" {
		fmt.Fprintf(to, "hint: %s\n", s.Hint)
	}
}

// ErrorWithHint returns an error with a code and the next step.
func ErrorWithHint(code, hint, format string, args ...any) error {
	return &cliError{code: code, message: fmt.Sprintf(format, args...), hint: hint}
}

// ExitCode returns an error that ends the program with a code and says nothing more.
func ExitCode(code int) error { return exitCode{code: code} }
