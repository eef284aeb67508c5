package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/space-platform/space/internal/instance"
)

// A page is one Markdown file of the documentation. Its fenced blocks are examples, and each is checked by what its language says:
//
//	sh       executed, in the order of the page, all in one shell that ends at the first failure
//	console  executed there as well: lines after "$ " (and "> ", which goes on with the command) are commands, the others what they print
//	json     what the sh block before it printed
//	go       a program, compiled and run; what it prints is in the comment "// Output:" at its end
//	toml     the platform's config.toml: parsed, unknown keys refused
//	yaml     parsed
//	mermaid  a diagram
//	text     no example: a drawing, lines of a log
//
// "…" in what is printed stands for anything within a line or a string, alone on a line for any lines, and as a member of an object
// for any members. Anything else in a page that looks like code is an error, so that nobody adds an example that isn't checked.
type page struct {
	path   string // from the checkout's root
	blocks []block
	prose  []line // what isn't in a block
}

// block is a fenced block.
type block struct {
	page     string
	line     int // of its fence
	language string
	text     string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

type line struct {
	number int
	text   string
}

// pages are all pages in the order in which a newcomer meets them.
func pages(t *testing.T) []page {
	t.Helper()
	paths, err := filepath.Glob("../docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("find the pages: %v, %v", paths, err)
	}
	var out []page
	for _, path := range append([]string{"../README.md"}, paths...) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p, err := parsePage(strings.TrimPrefix(path, "../"), b)
		if err != nil {
			t.Error(err)
		}
		out = append(out, p)
	}
	return out
}

var (
	fenceRE = regexp.MustCompile("^( *)(```+|~~~+)([^`]*)$")
	listRE  = regexp.MustCompile(`^ *([-*+]|[0-9]+[.)]) `)
)

// parsePage cuts a page into blocks and prose.
func parsePage(path string, text []byte) (page, error) {
	p := page{path: path}
	var open *block
	var indent, fence string
	blank, list := true, false
	number := 0
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		number++
		l := s.Text()
		m := fenceRE.FindStringSubmatch(l)
		switch {
		case open != nil && m != nil && strings.HasPrefix(m[2], fence) && strings.TrimSpace(m[3]) == "":
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(l, indent) + "\n"
		case m != nil:
			indent, fence = m[1], m[2]
			open = &block{page: path, line: number, language: strings.TrimSpace(m[3])}
		case strings.HasPrefix(l, "    ") && blank && !list, strings.HasPrefix(l, "\t"):
			return p, fmt.Errorf("%s:%d: an indented block: put it between fences that say its language", path, number)
		default:
			list = listRE.MatchString(l) || list && (l == "" || strings.HasPrefix(l, " "))
			p.prose = append(p.prose, line{number, l})
		}
		blank = l == ""
	}
	if open != nil {
		return p, fmt.Errorf("%s: the block isn't closed", open)
	}
	return p, nil
}

// commandRE finds commands in a block that is said to have none.
var commandRE = regexp.MustCompile(`(?m)^(\$ |(sudo )?(space|curl|make|go|git|docker|apt-get|psql|systemctl|export|echo) )`)

// check says what is wrong with a block, as far as it can be said without a platform.
func (b block) check(before *block) error {
	switch b.language {
	case "sh":
		return nil
	case "console":
		_, err := b.dialogue()
		return err
	case "go":
		if !strings.HasPrefix(b.text, "package main\n") {
			return fmt.Errorf("%s: a piece of Go that is no program", b)
		}
		return nil
	case "json":
		if before == nil || before.language != "sh" {
			return fmt.Errorf("%s: JSON that no sh block before it prints", b)
		}
		return wrapped(b, json.Unmarshal([]byte(b.text), new(any)))
	case "toml":
		meta, err := toml.Decode(b.text, new(instance.Config))
		if err == nil && len(meta.Undecoded()) > 0 {
			err = fmt.Errorf("unknown keys %v", meta.Undecoded())
		}
		return wrapped(b, err)
	case "yaml":
		return wrapped(b, yaml.Unmarshal([]byte(b.text), new(any)))
	case "mermaid":
		return nil
	case "text":
		if m := commandRE.FindString(b.text); m != "" {
			return fmt.Errorf("%s: text that has a command (%q): make it sh or console, which are executed", b, strings.TrimSpace(m))
		}
		return nil
	default:
		return fmt.Errorf("%s: a block of language %q, which nobody checks: see the comment in e2e/page_test.go", b, b.language)
	}
}

func wrapped(b block, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", b, err)
	}
	return nil
}

// exchange is a command and what it prints.
type exchange struct{ command, prints string }

// dialogue cuts a console block into its commands.
func (b block) dialogue() ([]exchange, error) {
	var out []exchange
	for l := range strings.Lines(b.text) {
		command, isCommand := strings.CutPrefix(l, "$ ")
		more, goesOn := strings.CutPrefix(l, "> ")
		switch {
		case isCommand:
			out = append(out, exchange{command: command})
		case len(out) == 0:
			return nil, fmt.Errorf("%s: it doesn't begin with a command", b)
		case goesOn && out[len(out)-1].prints == "":
			out[len(out)-1].command += more
		default:
			out[len(out)-1].prints += l
		}
	}
	return out, nil
}

// matches reports whether a text is what a pattern shows; of spaces it only counts whether there are any, so that columns may be of any width.
func matches(pattern, text string) bool {
	var re strings.Builder
	for l := range strings.Lines(squeeze(pattern)) {
		l = strings.TrimSuffix(l, "\n")
		if l == "…" {
			re.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		for i, part := range strings.Split(l, "…") {
			if i > 0 {
				re.WriteString(`[^\n]*`)
			}
			re.WriteString(regexp.QuoteMeta(part))
		}
		re.WriteString(`\n`)
	}
	ok, err := regexp.MatchString(`\A`+re.String()+`\z`, squeeze(text)+"\n")
	return err == nil && ok
}

var spacesRE = regexp.MustCompile(`[ \t]+`)

func squeeze(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(spacesRE.ReplaceAllString(text, " ")), " \n", "\n")
}

// matchesJSON says where a value differs from the one that is shown, "" if it doesn't.
func matchesJSON(at string, shown, got any) string {
	switch shown := shown.(type) {
	case string:
		text, isText := got.(string)
		if shown == "…" || isText && matches(shown, text) {
			return ""
		}
	case map[string]any:
		members, ok := got.(map[string]any)
		if !ok {
			break
		}
		_, others := shown["…"]
		for name, value := range shown {
			if name == "…" {
				continue
			}
			if _, ok := members[name]; !ok {
				return fmt.Sprintf("%s has no %s", at, name)
			}
			if differs := matchesJSON(at+"."+name, value, members[name]); differs != "" {
				return differs
			}
		}
		for name := range members {
			if _, ok := shown[name]; !ok && !others {
				return fmt.Sprintf("%s has %s, which isn't shown", at, name)
			}
		}
		return ""
	case []any:
		items, ok := got.([]any)
		if !ok || len(items) != len(shown) {
			break
		}
		for i := range shown {
			if differs := matchesJSON(fmt.Sprintf("%s[%d]", at, i), shown[i], items[i]); differs != "" {
				return differs
			}
		}
		return ""
	default:
		if shown == got {
			return ""
		}
	}
	return fmt.Sprintf("%s is %v, shown is %v", at, got, shown)
}

// TestEveryExampleIsChecked needs no platform: it refuses what TestDocs couldn't execute.
func TestEveryExampleIsChecked(t *testing.T) {
	for _, p := range pages(t) {
		var before *block
		for _, b := range p.blocks {
			if err := b.check(before); err != nil {
				t.Error(err)
			}
			before = &b
		}
	}
}

// TestConfigurationIsDocumented compares the table of keys in docs/operations.md with the configuration file's.
func TestConfigurationIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(b), "\n| key | if absent | meaning |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	documented := map[string]bool{}
	for row := range strings.Lines(table) {
		keys, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(keys, -1) {
			documented[m[1]] = true
		}
	}
	known := map[string]bool{}
	for field := range reflect.TypeFor[instance.Config]().Fields() {
		if key := field.Tag.Get("toml"); key != "-" {
			known[key] = true
		}
	}
	if diff := cmp.Diff(known, documented); diff != "" {
		t.Errorf("docs/operations.md differs from the configuration (-code +docs):\n%s", diff)
	}
}

// TestProcessesAreDocumented looks for each role in the table of docs/architecture.md, with its user.
func TestProcessesAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range append(instance.Roles(), instance.Supervisor) {
		user := "root"
		if slices.Contains(instance.Users(), r) {
			user = "`" + instance.Instance{Name: "NAME"}.User(r) + "`"
		}
		if row := fmt.Sprintf("\n| %s | %s | ", r, user); !bytes.Contains(b, []byte(row)) {
			t.Errorf("docs/architecture.md has no row %q", row)
		}
	}
}

var linkRE = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinksLeadSomewhere follows the links that stay in the repository, to a heading as well.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, p := range pages(t) {
		for _, l := range p.prose {
			for _, m := range linkRE.FindAllStringSubmatch(l.text, -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				file, heading, _ := strings.Cut(m[1], "#")
				path := filepath.Join("..", filepath.Dir(p.path), file)
				if file == "" {
					path = filepath.Join("..", p.path)
				}
				if _, err := os.Stat(path); err != nil {
					t.Errorf("%s:%d: the link to %s leads nowhere", p.path, l.number, m[1])
				} else if heading != "" && !slices.Contains(anchors(t, path), heading) {
					t.Errorf("%s:%d: %s has no heading %s", p.path, l.number, path, heading)
				}
			}
		}
	}
}

var pathRE = regexp.MustCompile(`\b(?:internal|api|client|cmd|e2e|hack|deploy|bench|examples)/[A-Za-z0-9_./-]*[A-Za-z0-9_]`)

// TestPathsExist looks for the files and packages that are named without a link.
func TestPathsExist(t *testing.T) {
	for _, p := range pages(t) {
		for _, l := range p.prose {
			for _, path := range pathRE.FindAllString(regexp.MustCompile(`/(?:var|run)/[^ ]*`).ReplaceAllString(l.text, ""), -1) {
				if _, err := os.Stat(filepath.Join("..", path)); err != nil {
					t.Errorf("%s:%d: there is no %s", p.path, l.number, path)
				}
			}
		}
	}
}

// anchors are the names that GitHub gives to a page's headings.
func anchors(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePage(path, b)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range p.prose {
		level, title, ok := strings.Cut(l.text, " ")
		if ok && strings.Trim(level, "#") == "" && level != "" {
			name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(title), "")
			out = append(out, strings.ReplaceAll(strings.TrimSpace(name), " ", "-"))
		}
	}
	return out
}

func TestPageRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no language":          "```\nls\n```\n",
		"an unknown language":  "```python\nprint()\n```\n",
		"an indented block":    "Do this:\n\n    make demo\n",
		"a block without end":  "```sh\nls\n",
		"a command in text":    "```text\n$ ls\n```\n",
		"curl in text":         "```text\ncurl -fsS localhost\n```\n",
		"an answer to nothing": "```json\n{}\n```\n",
		"broken JSON":          "```sh\nls\n```\n```json\n{\n```\n",
		"a piece of Go":        "```go\nx := 1\n```\n",
		"an unknown key":       "```toml\nvolume_gb = 1\n```\n",
		"broken YAML":          "```yaml\na: [\n```\n",
		"output before all":    "```console\nhello\n$ ls\n```\n",
	} {
		p, err := parsePage(name, []byte(text))
		var before *block
		for _, b := range p.blocks {
			if e := b.check(before); e != nil {
				err = e
			}
			before = &b
		}
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a\nb\n", "a\nb\n", true},
		{"a\nb\n", "a\nb\nc\n", false},
		{"a…c\n", "abbc\n", true},
		{"a…c\n", "ab\nc\n", false},
		{"a\n…\nd\n", "a\nb\nc\nd\n", true},
		{"a\n…\nd\n", "a\nd\n", true},
		{"a\n…\n", "b\n", false},
		{"ID  STATE\nx  y\n", "ID     STATE   \nx      y\n", true},
		{"a b\n", "ab\n", false},
		{"a.c\n", "abc\n", false},
	} {
		if got := matches(c.pattern, c.text); got != c.want {
			t.Errorf("%q against %q: %v", c.text, c.pattern, got)
		}
	}
	for _, c := range []struct {
		shown, got string
		want       bool
	}{
		{`{"a":1}`, `{"a":1}`, true},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`{"a":1,"…":"…"}`, `{"a":1,"b":2}`, true},
		{`{"a":1,"b":2}`, `{"a":1}`, false},
		{`{"a":"sbx_…"}`, `{"a":"sbx_1"}`, true},
		{`{"a":"sbx_…"}`, `{"a":"op_1"}`, false},
		{`{"a":"…"}`, `{"a":7}`, true},
		{`[1,2]`, `[1]`, false},
		{`[{"a":true}]`, `[{"a":false}]`, false},
	} {
		var shown, got any
		json.Unmarshal([]byte(c.shown), &shown)
		json.Unmarshal([]byte(c.got), &got)
		if differs := matchesJSON("it", shown, got); (differs == "") != c.want {
			t.Errorf("%s against %s: %q", c.got, c.shown, differs)
		}
	}
}
