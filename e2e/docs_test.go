//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// pageDeadline bounds the examples of one page; generous, as callDeadline is.
const pageDeadline = 5 * time.Minute

// TestDocs executes every example of the README and of docs/, as a reader would: in the order of the page, in one shell, on the platform.
// A page's commands run in an empty directory, the README's in the checkout.
func TestDocs(t *testing.T) {
	needsBase(t)
	for _, p := range pages(t) {
		if s := newScript(t, p); s.steps != nil {
			t.Run(p.path, s.run)
		}
	}
}

// script is a page as one shell script. Each of its steps leaves its output in files of its own.
type script struct {
	page  page
	dir   string // of the outputs and the programs
	steps []step
}

// step is a block, or a command of a console block.
type step struct {
	block   block
	command string
	prints  string // console, go: its output; "" for any
	json    string // sh: its output
	console bool   // stderr is part of the output, and a failure is fine if that is shown
}

func newScript(t *testing.T, p page) *script {
	t.Helper()
	s := &script{page: p, dir: t.TempDir()}
	for i, b := range p.blocks {
		switch b.language {
		case "sh":
			st := step{block: b, command: b.text}
			if i+1 < len(p.blocks) && p.blocks[i+1].language == "json" {
				st.json = p.blocks[i+1].text
			}
			s.steps = append(s.steps, st)
		case "console":
			dialogue, err := b.dialogue()
			if err != nil {
				t.Error(err)
			}
			for _, e := range dialogue {
				s.steps = append(s.steps, step{block: b, command: e.command, prints: e.prints, console: true})
			}
		case "go":
			program := filepath.Join(s.dir, fmt.Sprintf("program%d", i))
			s.steps = append(s.steps, step{block: b, command: program + "\n", prints: compile(t, b, program)})
		}
	}
	return s
}

// compile makes a program of a block and returns what it's said to print.
func compile(t *testing.T, b block, program string) string {
	t.Helper()
	if err := os.WriteFile(program+".go", []byte(b.text), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, program+".go")
	build.Dir = ".." // whose module it imports
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: compile it: %v\n%s", b, err, out)
	}
	_, output, ok := strings.Cut(b.text, "// Output:\n")
	if !ok {
		t.Errorf("%s: it doesn't end with what it prints, after // Output:", b)
	}
	return regexp.MustCompile(`(?m)^\s*// ?|^\s*}\s*$`).ReplaceAllString(output, "")
}

func (s *script) output(n int) string { return filepath.Join(s.dir, fmt.Sprintf("%03d.out", n)) }
func (s *script) errors(n int) string { return filepath.Join(s.dir, fmt.Sprintf("%03d.err", n)) }

// text is the script. The shell's state goes on from step to step; the first failure ends it.
func (s *script) text() string {
	var b strings.Builder
	b.WriteString("set -euo pipefail\nexec </dev/null\n")
	for n, st := range s.steps {
		switch {
		case !st.console:
			fmt.Fprintf(&b, "exec >%s 2>%s\n%s", s.output(n), s.errors(n), st.command)
		case st.prints == "":
			fmt.Fprintf(&b, "exec >%s 2>&1\n%s", s.output(n), st.command)
		default:
			fmt.Fprintf(&b, "exec >%s 2>&1\n{\n%s} || true\n", s.output(n), st.command)
		}
	}
	return b.String()
}

func (s *script) run(t *testing.T) {
	there := sandboxes(t)
	t.Cleanup(func() { s.wantClean(t, there) })
	ctx, cancel := context.WithTimeout(t.Context(), pageDeadline)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", s.text())
	if shell.Dir = t.TempDir(); s.page.path == "README.md" {
		shell.Dir = ".."
	}
	shell.Env = append(os.Environ(), "SPACE_INSTANCE="+platform.instance.Name, "INSTANCE="+platform.instance.Name,
		"PATH="+filepath.Dir(platform.binary)+":"+os.Getenv("PATH"))
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	shell.WaitDelay = time.Second
	err := shell.Run()
	syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) // what an example left in the background
	for n, st := range s.steps {
		out, readErr := os.ReadFile(s.output(n))
		if errors.Is(readErr, os.ErrNotExist) {
			break
		} else if readErr != nil {
			t.Fatal(readErr)
		}
		if differs := st.compare(out); differs != "" {
			t.Errorf("%s: %s%s", st.block, st.command, differs)
		}
		if _, later := os.Stat(s.output(n + 1)); err != nil && (later != nil || n == len(s.steps)-1) {
			warnings, _ := os.ReadFile(s.errors(n))
			t.Errorf("%s: %v (context: %v)\n%s%s%s", st.block, err, ctx.Err(), st.command, clip(out), warnings)
		}
	}
}

// compare says how a step's output differs from what is shown.
func (st step) compare(out []byte) string {
	if st.prints != "" && !matches(st.prints, string(out)) {
		return fmt.Sprintf("it printed\n%s\nshown is\n%s", out, st.prints)
	}
	if st.json == "" {
		return ""
	}
	var shown, got any
	if err := errors.Join(json.Unmarshal([]byte(st.json), &shown), json.Unmarshal(out, &got)); err != nil {
		return fmt.Sprintf("it printed no JSON: %v\n%s", err, out)
	}
	if differs := matchesJSON("the answer", shown, got); differs != "" {
		return differs + "\n" + string(bytes.TrimSpace(out))
	}
	return ""
}

// sandboxes are those that nobody has told to go.
func sandboxes(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for s, err := range platform.client.ListSandboxes(context.WithoutCancel(t.Context()), client.SandboxFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if s.State != "deleting" {
			out[s.Id] = true
		}
	}
	return out
}

// wantClean deletes what a page has left, and says that the page should.
func (s *script) wantClean(t *testing.T, there map[string]bool) {
	for id := range sandboxes(t) {
		if there[id] {
			continue
		}
		if !t.Failed() {
			t.Errorf("%s leaves the sandbox %s", s.page.path, id)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), callDeadline)
		if err := platform.client.DeleteSandbox(ctx, id); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

// TestDocsNameEachMetric looks for what the roles of the running platform say in the table of docs/observability.md. That everything
// in the table exists is a unit test's: some of it only shows once it has happened.
func TestDocsNameEachMetric(t *testing.T) {
	runIn(t, create(t, "base"), client.SessionCreate{Argv: argv("true")}).want(t, 0, "", "")
	b, err := os.ReadFile("../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range instance.Roles() {
		if _, ok := platform.instance.OpsPort(r); !ok {
			continue
		}
		out, _ := space(t, "metrics", string(r))
		said := regexp.MustCompile(`(?m)^# TYPE (space_[a-z0-9_]+) `).FindAllStringSubmatch(out, -1)
		if len(said) < 2 {
			t.Errorf("%s has no metrics of its own:\n%s", r, out)
		}
		for _, family := range said {
			if !bytes.Contains(b, []byte("\n| `"+family[1]+"` |")) {
				t.Errorf("%s says %s, docs/observability.md doesn't", r, family[1])
			}
		}
	}
}

// inlineRE finds the commands of space in prose.
var inlineRE = regexp.MustCompile("`(space [a-z][^`]*)`")

// TestDocsNameRealCommands looks up the commands and flags that are named in the text.
func TestDocsNameRealCommands(t *testing.T) {
	for _, p := range pages(t) {
		for _, l := range p.prose {
			for _, m := range inlineRE.FindAllStringSubmatch(l.text, -1) {
				if err := known(t.Context(), m[1]); err != nil {
					t.Errorf("%s:%d: `%s`: %v", p.path, l.number, m[1], err)
				}
			}
		}
	}
}

var wordRE = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// known asks the help for a command's words and flags. A word that no command has is an argument.
func known(ctx context.Context, command string) error {
	command, _, _ = strings.Cut(command, " -- ")
	var words, flags []string
	for _, w := range strings.Fields(command)[1:] {
		if flag, _, _ := strings.Cut(w, "="); strings.HasPrefix(flag, "-") && flag != "-" {
			flags = append(flags, flag)
		} else if wordRE.MatchString(w) && len(flags) == 0 {
			words = append(words, w)
		}
	}
	for n := len(words); n > 0; n-- {
		out, err := exec.CommandContext(ctx, platform.binary, append(words[:n:n], "--help")...).CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("\n  space "+strings.Join(words[:n], " ")+" ")) && !bytes.Contains(out, []byte("\n  space "+strings.Join(words[:n], " ")+"\n")) {
			continue
		}
		for _, f := range flags {
			if !regexp.MustCompile(`(?m)^ +(-[a-z], )?` + f + `\b|^ +` + f + `, `).Match(out) {
				return fmt.Errorf("it has no flag %s", f)
			}
		}
		return nil
	}
	return errors.New("there is no such command")
}
