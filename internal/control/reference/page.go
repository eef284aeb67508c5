package reference

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"

	space "github.com/space-platform/space"
)

var (
	//go:embed page.gohtml
	layout string
	//go:embed page.css
	style string
)

// material is what opens operations.
type material struct {
	Name  string
	About string
}

// failure is one error code.
type failure struct {
	Code   space.Code
	Status int
	Title  string
}

// page is all that the template shows.
type page struct {
	Title     string
	Version   string
	About     string
	Style     template.CSS
	Groups    []group
	Schemas   []schema
	Materials []material
	Failures  []failure
}

// Handler serves the page of an OpenAPI document. The permission is what the caller of an operation needs, by its method and path; empty
// if it's none. The document is ours: one that can't be shown is a bug, and ends the program at its start.
func Handler(document string, permission func(pattern string) space.Permission) http.Handler {
	b, err := render(document, permission)
	if err != nil {
		panic(err)
	}
	hash := sha256.Sum256([]byte(style))
	policy := fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		base64.StdEncoding.EncodeToString(hash[:]))
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Referrer-Policy", "no-referrer")
		_, _ = w.Write(b) // the client is gone
	})
}

func render(text string, permission func(pattern string) space.Permission) ([]byte, error) {
	d, err := parse(text)
	if err != nil {
		return nil, err
	}
	t, err := template.New("page").Funcs(template.FuncMap{"prose": prose, "line": line}).Parse(layout)
	if err != nil {
		return nil, fmt.Errorf("read the reference's layout: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, d.page(permission)); err != nil {
		return nil, fmt.Errorf("make the reference: %w", err)
	}
	return b.Bytes(), nil
}

func (d document) page(permission func(pattern string) space.Permission) page {
	out := page{
		Title: text(d.root, "info", "title"), Version: text(d.root, "info", "version"), About: text(d.root, "info", "description"),
		Style: template.CSS(style), Groups: d.groups(permission), Schemas: d.schemas(), Failures: failures(),
	}
	for _, s := range members(get(d.root, "components", "securitySchemes")) {
		out.Materials = append(out.Materials, material{Name: s.name, About: text(s.node, "description")})
	}
	return out
}

func failures() []failure {
	var out []failure
	for _, c := range space.Codes() {
		out = append(out, failure{Code: c, Status: c.HTTPStatus(), Title: c.Title()})
	}
	slices.SortFunc(out, func(a, b failure) int {
		return cmp.Or(a.Status-b.Status, cmp.Compare(a.Code, b.Code))
	})
	return out
}
