package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/space-platform/space/client"
)

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "plain ünï 漢 …": "plain ünï 漢 …", "\x1b[31mred": `\x1b[31mred`, "a\rb": `a\rb`, "a\nb\tc": `a\nb\tc`, "\x1b]0;t\x07": `\x1b]0;t\a`, "\u009b1m": `\u009b1m`,
		"abc\u202ecba": `abc\u202ecba`, "\xff\xfe": `\xff\xfe`, "�": "�", "\x7f": `\x7f`,
	} {
		if got := printable(s, ""); got != want {
			t.Errorf("%q is shown as %q, want %q", s, got, want)
		}
	}
	if got := printable("a\nb\tc\r", "\n\t"); got != "a\nb\tc\\r" {
		t.Errorf("kept: %q", got)
	}
}

// TestNothingMovesTheCursor has a guest, or somebody else of the project, call things what turns a terminal around: none of what is shown of them does.
func TestNothingMovesTheCursor(t *testing.T) {
	const ugly = "\x1b[31mred\x1b]0;title\x07\r\u202e\x7f"
	var out bytes.Buffer
	n := &connection{json: func() bool { return false }}
	progress := ugly
	for what, show := range map[string]func() error{
		"a table": func() error { return WriteTable(&out, []string{"NAME"}, [][]string{{ugly}}) },
		"sessions": func() error {
			return n.showSessions([]client.LiveSession{{Id: "ses_1", Argv: []string{ugly, "a\nb"}}}, &out)
		},
		"a template": func() error { return n.showTemplate(&out, client.Template{Name: ugly, Progress: &progress}) },
		"an error":   func() error { shown{Code: "guest_error", Message: ugly, Hint: ugly}.show(&out, false); return nil },
		"a log": func() error {
			return n.followLog(&out, func(yield func(client.LogLine, error) bool) { yield(client.LogLine{Text: ugly}, nil) })
		},
	} {
		out.Reset()
		if err := show(); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }); i >= 0 || !strings.Contains(out.String(), `\x1b[31mred`) {
			t.Errorf("%s: %q", what, out.String())
		}
	}
}
