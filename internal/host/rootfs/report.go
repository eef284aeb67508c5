package rootfs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/image"
	"github.com/space-platform/space/internal/peer"
)

// What a helper prints: lines that begin with a mark. The last other one is the reason of a failure.
const (
	progressMark = "progress: "
	resultMark   = "result: "
	refusalMark  = "refused: "
)

// maxLine bounds a helper's line in bytes: an image's environment and commands fit.
const maxLine = 1 << 20

// refusal is a helper's error that is the fault of what was ordered, or of a full disk, which has the error code and no field.
type refusal struct {
	Code    space.Code `json:"code,omitempty"`
	Field   string     `json:"field,omitempty"`
	Message string     `json:"message"`
}

// said is what a helper has printed.
type said struct {
	result  Result
	refusal *refusal
	last    string
}

// listen passes progress on until the helper closes its output.
func listen(out io.Reader, progress func(string)) said {
	var s said
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		s.take(lines.Text(), progress)
	}
	io.Copy(io.Discard, out) // a line was too long: let the helper go on
	return s
}

func (s *said) take(line string, progress func(string)) {
	if text, ok := strings.CutPrefix(line, progressMark); ok {
		progress(text)
		return
	}
	if text, ok := strings.CutPrefix(line, resultMark); ok && json.Unmarshal([]byte(text), &s.result) == nil {
		return
	}
	var r refusal
	if text, ok := strings.CutPrefix(line, refusalMark); ok && json.Unmarshal([]byte(text), &r) == nil {
		s.refusal = &r
		return
	}
	if line = strings.TrimSpace(line); line != "" {
		s.last = line
	}
}

// print prints what became of an order, and returns the process's exit code.
func (o Order) print(out io.Writer, r Result, err error) int {
	if err == nil {
		printJSON(out, resultMark, r)
		return 0
	}
	text := o.withoutPaths(err.Error())
	var wrong *space.Error
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		printJSON(out, refusalMark, refusal{Field: wrong.Field, Message: wrong.Message})
	case peer.NoRoom(err):
		full := peer.Public(err)
		printJSON(out, refusalMark, refusal{Code: full.Code, Message: full.Message})
	case blames(err):
		printJSON(out, refusalMark, refusal{Field: o.field(), Message: text})
	}
	fmt.Fprintln(out, strings.ReplaceAll(text, "\n", " | "))
	return 1
}

// withoutPaths is an error's text without where this node keeps things: users read it.
func (o Order) withoutPaths(text string) string {
	for _, dir := range []string{o.Dir, o.Layers, filepath.Dir(o.Archive), filepath.Dir(o.Rootfs)} {
		if len(dir) > 1 { // neither empty nor the root
			text = strings.ReplaceAll(text, dir+"/", "")
		}
	}
	return text
}

func printJSON(out io.Writer, mark string, v any) {
	b, err := json.Marshal(v)
	if err == nil {
		fmt.Fprintf(out, "%s%s\n", mark, b)
	}
}

// blames tells whether an error is the fault of what was ordered, not of the machine.
func blames(err error) bool {
	for _, fault := range []error{image.ErrEscape, image.ErrTooLarge, image.ErrMalformed, image.ErrDigest, image.ErrNotFound, image.ErrAddress, image.ErrLogin, errTooSmall} {
		if errors.Is(err, fault) {
			return true
		}
	}
	var e *image.Error
	return errors.As(err, &e)
}

// error is why a helper failed that ended with err.
func (s said) error(err error) error {
	switch {
	case s.refusal != nil && s.refusal.Code != "":
		return space.Errorf(s.refusal.Code, "%s", s.refusal.Message)
	case s.refusal != nil:
		return space.FieldErrorf(s.refusal.Field, "%s", s.refusal.Message)
	case s.last != "":
		return errors.New(s.last)
	}
	return err
}
