package reference

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	space "github.com/space-platform/space"
	contract "github.com/space-platform/space/api"
)

func permission(string) space.Permission { return "sandboxes:read" }

// rendered is the page of the contract, made once.
var rendered = sync.OnceValues(func() ([]byte, error) { return render(contract.OpenAPI(), permission) })

func shown(t *testing.T) (html string, d document) {
	t.Helper()
	b, err := rendered()
	if err != nil {
		t.Fatal(err)
	}
	d, err = parse(contract.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	return string(b), d
}

// TestPageIsComplete looks for every operation, parameter, field, schema and error of the contract.
func TestPageIsComplete(t *testing.T) {
	html, d := shown(t)
	want := []string{"schema-Problem"}
	for _, p := range members(get(d.root, "paths")) {
		want = append(want, p.name)
		for _, m := range members(p.node) {
			if id := text(m.node, "operationId"); id != "" {
				want = append(want, `<article id="`+id+`">`, "<code>"+id+"</code>")
			}
		}
	}
	for _, s := range members(get(d.root, "components", "schemas")) {
		want = append(want, `<article id="schema-`+s.name+`">`)
		for _, f := range members(get(s.node, "properties")) {
			want = append(want, "<code>"+f.name+"</code>")
		}
	}
	for _, p := range members(get(d.root, "components", "parameters")) {
		want = append(want, "<code>"+text(p.node, "name")+"</code>")
	}
	for _, c := range space.Codes() {
		want = append(want, `<tr id="error-`+string(c)+`">`)
	}
	for _, w := range want {
		if !strings.Contains(html, w) {
			t.Errorf("the page doesn't show %s", w)
		}
	}
}

// TestLinksLead holds that each link within the page has a place.
func TestLinksLead(t *testing.T) {
	html, _ := shown(t)
	for _, m := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(html, -1) {
		if !strings.Contains(html, `id="`+m[1]+`"`) {
			t.Errorf("#%s leads nowhere", m[1])
		}
	}
}

// TestPageIsItsOwn holds that a browser loads nothing else and runs nothing.
func TestPageIsItsOwn(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(contract.OpenAPI(), permission).ServeHTTP(w, httptest.NewRequest("GET", "/docs", nil))
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
	_, css, _ := strings.Cut(w.Body.String(), "<style>")
	css, _, _ = strings.Cut(css, "</style>")
	hash := sha256.Sum256([]byte(css))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "';"
	if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, want) {
		t.Errorf("policy %q, want %s", csp, want)
	}
	if m := regexp.MustCompile(`(?i)<script|<iframe|<img|<link| src=|url\(|@import| on[a-z]+=|javascript:`).FindString(w.Body.String()); m != "" {
		t.Errorf("the page has %q", m)
	}
}

// TestExamplesAreComplete holds that each example names its method, opens what is closed, and has the body that is needed.
func TestExamplesAreComplete(t *testing.T) {
	_, d := shown(t)
	for _, g := range d.groups(permission) {
		for _, o := range g.Operations {
			if o.Method != "GET" && !strings.Contains(o.Example, "-X "+o.Method) {
				t.Errorf("%s: %s", o.ID, o.Example)
			}
			if slices.Contains(o.Material, "key") && !strings.Contains(o.Example, "$SPACE_API_KEY") {
				t.Errorf("%s has no key: %s", o.ID, o.Example)
			}
			if o.BodyNeeded != (strings.Contains(o.Example, "-d '") || strings.Contains(o.Example, "--data-binary")) && o.BodyNeeded {
				t.Errorf("%s has no body: %s", o.ID, o.Example)
			}
			if strings.Contains(o.Example, "{}") {
				t.Errorf("%s has an empty body: %s", o.ID, o.Example)
			}
		}
	}
}

func TestProseEscapes(t *testing.T) {
	got := string(prose("a <b> `c<d>` **e**\n\n| x | y |\n|---|---|\n| `1` | <2> |"))
	want := "<p>a &lt;b&gt; <code>c&lt;d&gt;</code> <strong>e</strong></p>\n<table>\n<tr><th>x</th><th>y</th></tr>\n<tr><td><code>1</code></td><td>&lt;2&gt;</td></tr>\n</table>\n"
	if got != want {
		t.Errorf("got %s", got)
	}
}
