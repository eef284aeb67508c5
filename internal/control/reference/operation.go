package reference

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	space "github.com/space-platform/space"
)

// parameter is what an operation takes beside its body.
type parameter struct {
	Name     string
	In       string
	Required bool
	Kind     kind
	About    string
	Limits   []string
}

// content is a body in one media type.
type content struct {
	Media string
	Kind  kind
}

// response is one answer.
type response struct {
	Status string
	About  string
	Body   []content
}

// operation is one thing that the API does.
type operation struct {
	ID         string
	Method     string
	Path       string
	Summary    string
	About      string
	Material   []string // what opens it; none: it's open
	Permission space.Permission
	Parameters []parameter
	Body       []content
	BodyNeeded bool
	Responses  []response
	Problems   []string // codes
	Example    string
}

// group is the operations of one tag.
type group struct {
	Name       string
	Operations []operation
}

var methods = []string{"get", "post", "put", "patch", "delete", "head"}

// groups are the operations by their first tag, in the order of the document's tags.
func (d document) groups(permission func(pattern string) space.Permission) []group {
	var out []group
	for _, tag := range items(d.root, "tags") {
		out = append(out, group{Name: text(tag, "name")})
	}
	for _, path := range members(get(d.root, "paths")) {
		for _, m := range members(path.node) {
			if !slices.Contains(methods, m.name) {
				continue
			}
			o := d.operation(path, m)
			o.Permission = permission(o.Method + " " + o.Path)
			tag := texts(m.node, "tags")[0]
			i := slices.IndexFunc(out, func(g group) bool { return g.Name == tag })
			out[i].Operations = append(out[i].Operations, o)
		}
	}
	return out
}

func (d document) operation(path, m pair) operation {
	o := operation{
		ID: text(m.node, "operationId"), Method: strings.ToUpper(m.name), Path: path.name,
		Summary: text(m.node, "summary"), About: text(m.node, "description"), Material: d.material(m.node),
		Parameters: append(d.parameters(path.node), d.parameters(m.node)...),
	}
	if body := get(m.node, "requestBody"); body != nil {
		o.Body, o.BodyNeeded = d.contents(body), text(body, "required") == "true"
	}
	for _, r := range members(get(m.node, "responses")) {
		node, _ := d.resolve(r.node)
		o.Responses = append(o.Responses, response{Status: r.name, About: text(node, "description"), Body: d.contents(node)})
	}
	o.Problems = d.problems(m.node, o.Material)
	o.Example = d.curl(o, path.node, m.node)
	return o
}

// problems are the codes that an operation lists, then those of what opens it, then those of all.
func (d document) problems(n *yaml.Node, materials []string) []string {
	const listed = "x-problems"
	out := texts(n, listed)
	for _, name := range materials {
		out = append(out, texts(d.root, "components", "securitySchemes", name, listed)...)
	}
	out = append(out, texts(d.root, listed)...)
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(code string) bool {
		again := seen[code]
		seen[code] = true
		return again
	})
}

// material names what opens an operation, by the document's security schemes.
func (d document) material(n *yaml.Node) []string {
	security := get(n, "security")
	if security == nil {
		security = get(d.root, "security")
	}
	var out []string
	for _, s := range security.Content {
		for _, scheme := range members(s) {
			out = append(out, scheme.name)
		}
	}
	return out
}

func (d document) parameters(n *yaml.Node) []parameter {
	var out []parameter
	for _, p := range items(n, "parameters") {
		p, _ = d.resolve(p)
		s := get(p, "schema")
		out = append(out, parameter{
			Name: text(p, "name"), In: text(p, "in"), Required: text(p, "required") == "true", Kind: d.kindOf(s),
			About: text(p, "description"), Limits: limits(s),
		})
	}
	return out
}

func (d document) contents(n *yaml.Node) []content {
	var out []content
	for _, c := range members(get(n, "content")) {
		out = append(out, content{Media: c.name, Kind: d.kindOf(get(c.node, "schema"))})
	}
	return out
}
