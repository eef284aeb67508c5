package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/space-platform/space/client"
)

// The exit codes that don't come from a command in a sandbox.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitTimeout  = 124 // as timeout(1) has it
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

// hinted is an error whose next step is known better where it happened than its code says.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// several are errors of the same command about different things, each of which is shown.
type several []error

func (s several) Error() string   { return errors.Join(s...).Error() }
func (s several) Unwrap() []error { return s }

// together returns those of the errors that are one; nil if none is.
func together(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return several(errs)
}

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
	s := classify(err)
	var h hinted
	if errors.As(err, &h) {
		s.Hint = h.hint
	}
	return s
}

func classify(err error) shown {
	var own *cliError
	var refused *client.Error
	switch {
	case errors.As(err, &own):
		return shown{Code: own.code, Message: own.message, Hint: own.hint}
	case isLocal(err): // also where it broke off what was being sent
		return shown{Code: "local_file", Message: localMessage(err), Hint: "it's a path on this machine; nothing is wrong with the platform"}
	case errors.As(err, &refused):
		return shown{Code: refused.Code, Message: withoutCode(err, refused), Hint: hintFor(refused), RequestID: refused.RequestID}
	case errors.Is(err, context.Canceled):
		return shown{Code: "interrupted", Message: err.Error()}
	case isTransport(err):
		return shown{Code: "unavailable", Message: err.Error(), Hint: hints["unavailable"]}
	default:
		return shown{Code: "failed", Message: err.Error()}
	}
}

// isLocal tells whether an error is about a file of this machine: an error of the network never names one. A bare error number would count as
// the network's, since it has all methods of net.Error.
func isLocal(err error) bool {
	return errors.As(err, new(*fs.PathError)) || errors.As(err, new(*os.LinkError))
}

// localMessage is what was being done with a file, without the request that was broken off by it.
func localMessage(err error) string {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err.Error()
	}
	return err.Error()
}

func isTransport(err error) bool {
	return errors.As(err, new(*url.Error)) || errors.As(err, new(*net.OpError))
}

// hints are the next steps for the codes that have one which is always right.
var hints = map[string]string{
	"unauthenticated":    "check SPACE_API_KEY and the configuration file, or SPACE_SANDBOX_TOKEN; 'space up' writes a new key for a platform on this machine",
	"snapshot_unusable":  "if the detail says that its disk can be booted, --cold does that and leaves the memory; 'space sandbox snapshots' shows what else there is to roll back to",
	"template_not_ready": "'space template ls' shows its state, 'space template logs NAME' its build",
	"quota_exceeded":     "'space project get' shows what the project uses of its quota",
	"capacity_exhausted": "delete what isn't needed: 'space sandbox ls' and 'space template ls' show what there is; then try again",
	"execution_lost":     "'space sandbox get SANDBOX' shows what became of the sandbox, and its recovery point if it has one",
	"session_lost":       "nothing more of the session is kept; 'space ps SANDBOX' lists those that there are, 'space sandbox get SANDBOX' shows how the sandbox is",
	"unavailable":        "'space status' shows whether the platform runs here; 'space up' starts it",
	"internal":           "the operator's log has the cause: 'space logs'",
}

// lists are the commands that show what there is of a kind, by the kind's name in the API.
var lists = map[string]string{
	"sandbox":  "'space sandbox ls' shows which sandboxes there are",
	"template": "'space template ls' shows which templates there are; 'space template build base' builds the usual one",
	"snapshot": "'space snapshot ls' shows which snapshots there are",
	"session":  "'space ps SANDBOX' shows which sessions the sandbox has",
	"token":    "'space sandbox token ls SANDBOX' shows which tokens the sandbox has",
	"key":      "'space key ls' shows which keys there are",
	"user":     "'space user ls' shows which users there are",
	"project":  "'space project ls' shows which projects there are",
	"tag":      "'space template ls' shows which tags there are",
	"alias":    "'space template ls' shows which aliases there are",
}

// missing is how the API says what there isn't: "the KIND does not exist", "no such KIND", "the template has no such KIND".
var missing = regexp.MustCompile(`^(?:the ([a-z]+) does not exist|(?:the template has )?no such ([a-z]+))`)

// hintFor is the next step after a refusal.
func hintFor(refused *client.Error) string {
	if refused.Operation != "" { // it's in the way
		return "'space operation get " + refused.Operation + " --wait 5m' waits for it; then try again"
	}
	if refused.Code != "not_found" {
		return hints[refused.Code]
	}
	if strings.HasSuffix(refused.Detail, "no such file or directory") {
		return "'space exec SANDBOX -- ls -la DIRECTORY' shows what is there; a relative path begins at the user's home"
	}
	if m := missing.FindStringSubmatch(refused.Detail); m != nil {
		return lists[m[1]+m[2]]
	}
	return ""
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

// readable is an error of parsing flags, in words that aren't Go's.
func readable(err error) error {
	var value *pflag.InvalidValueError
	if !errors.As(err, &value) {
		return err
	}
	why := value.Unwrap().Error()
	if errors.As(err, new(*strconv.NumError)) {
		why = "want a whole number"
		if value.GetFlag().Value.Type() == "bool" {
			why = "want true or false"
		}
	}
	return fmt.Errorf("--%s %q: %s", value.GetFlag().Name, value.GetValue(), why)
}

// countedArguments are cobra's words for too few or too many arguments.
var countedArguments = regexp.MustCompile(` arg\(s\), (?:only )?received (\d+)$`)

// miscounted says which argument of a command is missing, or that there are more than it takes. Their names are those of its usage line, where those that may be left
// out are in brackets.
func miscounted(cmd *cobra.Command, received string) string {
	var names, must []string
	for _, word := range strings.Fields(cmd.Use)[1:] {
		name := strings.Trim(word, "[…]")
		switch {
		case name == "flags" || name == "--":
		case strings.HasPrefix(word, "["):
			names = append(names, name)
		default:
			names, must = append(names, name), append(must, name)
		}
	}
	if n, err := strconv.Atoi(received); err == nil && n < len(must) {
		verb := "is"
		if len(must)-n > 1 {
			verb = "are"
		}
		return fmt.Sprintf("%s: %s %s missing", cmd.CommandPath(), strings.Join(must[n:], " and "), verb)
	}
	return fmt.Sprintf("%s takes %s only, and got %s arguments", cmd.CommandPath(), strings.Join(names, " and "), received)
}

var unknownCommand = regexp.MustCompile(`^unknown command "([^"]+)" for `)

// similar names the subcommands that somebody may have meant; without any it's the other hint.
func similar(cmd *cobra.Command, word, other string) string {
	cmd.SuggestionsMinimumDistance = min(2, len(word)/3) // letters that differ
	var all []string
	for _, name := range cmd.SuggestionsFor(word) {
		all = append(all, "'"+cmd.CommandPath()+" "+name+"'")
	}
	if len(all) == 0 {
		return other
	}
	return "did you mean " + strings.Join(all, " or ") + "?"
}

// report shows an error and returns the exit code.
func report(to io.Writer, cmd *cobra.Command, args []string, err error) int {
	if err == nil {
		return 0
	}
	code := exitFailed
	var s shown
	var exit exitCode
	var all several
	asJSON := wantsJSON(cmd)
	switch {
	case errors.As(err, &all):
		for _, one := range all {
			explain(one).show(to, asJSON)
		}
		return code
	case errors.As(err, &exit):
		if code = exit.code; exit.err == nil {
			return code
		}
		s = explain(exit.err)
	case errors.As(err, new(failed)):
		s = explain(err)
	default:
		asJSON = asJSON || askForJSON(args) // the flag may stand after the one that was wrong
		code, s = exitUsage, shown{Code: "usage", Message: readable(err).Error(), Hint: "add --help to see how a command is used"}
		if m := countedArguments.FindStringSubmatch(s.Message); m != nil {
			s.Message, s.Hint = miscounted(cmd, m[1]), "write "+cmd.UseLine()
		}
		if m := unknownCommand.FindStringSubmatch(s.Message); m != nil && cmd.HasSubCommands() {
			s.Hint = similar(cmd, m[1], s.Hint)
		} else if m != nil {
			s.Message, s.Hint = fmt.Sprintf("%s takes no arguments, and %q is one", cmd.CommandPath(), m[1]), "write "+cmd.UseLine()
		}
	}
	s.show(to, asJSON)
	return code
}

// maxMessage bounds what is shown of an error, in bytes: it repeats what was given.
const maxMessage = 2000

// clipped is a message without its middle, if it's too long.
func clipped(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage/2], "") + " … " + strings.ToValidUTF8(message[len(message)-maxMessage/2:], "")
}

func (s shown) show(to io.Writer, asJSON bool) {
	s.Message = clipped(s.Message)
	if asJSON {
		json.NewEncoder(to).Encode(map[string]shown{"error": s})
		return
	}
	fmt.Fprintf(to, "error: %s: %s\n", s.Code, printable(s.Message, "\n\t"))
	if s.RequestID != "" {
		fmt.Fprintf(to, "request: %s\n", s.RequestID)
	}
	if s.Hint != "" {
		fmt.Fprintf(to, "hint: %s\n", printable(s.Hint, "\n\t"))
	}
}

// wrongly returns the error of a call that is wrong whatever the platform says, with what to write instead.
func wrongly(hint, format string, args ...any) error {
	return exitCode{exitUsage, &cliError{code: "usage", message: fmt.Sprintf(format, args...), hint: hint}}
}

// ErrorWithHint returns an error with a code and the next step.
func ErrorWithHint(code, hint, format string, args ...any) error {
	return &cliError{code: code, message: fmt.Sprintf(format, args...), hint: hint}
}

// ExitCode returns an error that ends the program with a code and says nothing more.
func ExitCode(code int) error { return exitCode{code: code} }
