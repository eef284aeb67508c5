// Package apitest holds answers against what the contract says of them beyond a schema: which problems each operation lists.
package apitest

import (
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// problems is the extension under which the document, a material and an operation list codes of problems.
const problems = "x-problems"

// Problems are the codes that the contract lists, by operation.
type Problems struct {
	routes *http.ServeMux
	listed map[string][]string
}

// NewProblems reads them of the operations that a server has.
func NewProblems(doc *openapi3.T, served func(*openapi3.Operation) bool) *Problems {
	out := &Problems{routes: http.NewServeMux(), listed: map[string][]string{}}
	for path, item := range doc.Paths.Map() {
		for method, o := range item.Operations() {
			if !served(o) {
				continue
			}
			pattern := method + " " + path
			out.routes.Handle(pattern, http.NotFoundHandler())
			out.listed[pattern] = Listed(doc, o)
		}
	}
	return out
}

// Listed are the codes that an operation lists, with those of all operations and of the materials that open it.
func Listed(doc *openapi3.T, o *openapi3.Operation) []string {
	out := slices.Concat(codes(doc.Extensions), codes(o.Extensions))
	security := o.Security
	if security == nil {
		security = &doc.Security
	}
	for _, s := range *security {
		for name := range s {
			out = append(out, codes(doc.Components.SecuritySchemes[name].Value.Extensions)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func codes(extensions map[string]any) []string {
	b, err := json.Marshal(extensions[problems])
	if err != nil {
		panic(err)
	}
	var out []string
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}

// Unlisted reports whether a request is of an operation that doesn't list a code. A mux is kinder than the servers: it takes HEAD for GET, and
// paths that aren't in their shortest form.
func (p *Problems) Unlisted(r *http.Request, code string) bool {
	_, pattern := p.routes.Handler(r)
	listed, ok := p.listed[pattern]
	return ok && strings.HasPrefix(pattern, r.Method+" ") && path.Clean(r.URL.Path) == r.URL.Path && !slices.Contains(listed, code)
}
