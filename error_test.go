package space_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
)

// TestErrorCodesAreDocumented compares the table in docs/api.md with the vocabulary.
func TestErrorCodesAreDocumented(t *testing.T) {
	b, err := os.ReadFile("docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[space.Code]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([0-9]{3}) \\| .+ \\|$").FindAllStringSubmatch(string(b), -1) {
		documented[space.Code(row[1])] = row[2]
	}
	coded := map[space.Code]string{}
	for _, c := range space.Codes() {
		coded[c] = fmt.Sprint(c.HTTPStatus())
	}
	if diff := cmp.Diff(coded, documented); diff != "" {
		t.Errorf("docs/api.md differs from the vocabulary (-code +docs):\n%s", diff)
	}
}

func TestErrorCodes(t *testing.T) {
	for _, c := range space.Codes() {
		if s := c.HTTPStatus(); s < 400 || s > 599 {
			t.Errorf("code %s answers %d", c, s)
		}
	}
	err := fmt.Errorf("create: %w", space.Errorf(space.CodeUnavailable, "the node is away: %w", io.EOF))
	if space.CodeOf(err) != space.CodeUnavailable || !errors.Is(err, io.EOF) {
		t.Errorf("%v: code %s", err, space.CodeOf(err))
	}
	if space.CodeOf(nil) != "" || space.CodeOf(io.EOF) != space.CodeInternal || space.Code("new").HTTPStatus() != 500 {
		t.Error("nil, foreign and unknown errors must have the codes that the comments promise")
	}
}

// TestErrorfKeepsTheCauseFromUsers: a path or an address in a cause is for operators.
func TestErrorfKeepsTheCauseFromUsers(t *testing.T) {
	cause := errors.New("read unix @->/run/space/vm/link.sock: connection reset")
	for name, c := range map[string]struct {
		err  *space.Error
		want string
		full string // for operators
	}{
		"a cause":           {space.Errorf(space.CodeGuest, "the guest of %s is away: %w", "x", cause), "the guest of x is away", "guest_error: the guest of x is away: " + cause.Error()},
		"only a cause":      {space.Errorf(space.CodeGuest, "%w", io.EOF), "EOF", "guest_error: EOF"},
		"no cause":          {space.Errorf(space.CodeGuest, "it said %v", io.EOF), "it said EOF", "guest_error: it said EOF"},
		"a cause for users": {space.Errorf(space.CodeGuest, "no guest: %w", fmt.Errorf("greet: %w", space.Errorf(space.CodeTimeout, "it took a minute: %w", cause))), "no guest: it took a minute", "guest_error: no guest: it took a minute: greet: timeout: it took a minute: " + cause.Error()},
	} {
		if c.err.Message != c.want || c.err.Error() != c.full {
			t.Errorf("%s: for users %q, want %q; for operators %q, want %q", name, c.err.Message, c.want, c.err.Error(), c.full)
		}
	}
}
