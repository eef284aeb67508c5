package reference

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// kind says in words what a value is: "list of Sandbox", with a link if it has a name of its own.
type kind struct {
	Before string
	Name   string // of a schema of its own, or a plain word
	Link   string // empty for a plain word
	After  string
}

// field is a member of an object.
type field struct {
	Name     string
	Kind     kind
	Required bool
	About    string
	Limits   []string
}

// schema is a named shape of data.
type schema struct {
	Name   string
	About  string
	Kind   kind
	Fields []field
	Values []string // of an enumeration
}

func (d document) schemas() []schema {
	var out []schema
	for _, p := range members(get(d.root, "components", "schemas")) {
		out = append(out, schema{
			Name: p.name, About: text(p.node, "description"), Kind: d.kindOf(p.node), Fields: d.fields(p.node, ""), Values: texts(p.node, "enum"),
		})
	}
	return out
}

// fields are an object's members. Those of an object without a name of its own follow it, with its name before theirs.
func (d document) fields(n *yaml.Node, within string) []field {
	required := texts(n, "required")
	var out []field
	for _, p := range members(get(n, "properties")) {
		about := text(p.node, "description")
		resolved, _ := d.resolve(p.node)
		if about == "" && text(p.node, "$ref") == "" {
			about = text(resolved, "description")
		}
		out = append(out, field{
			Name: within + p.name, Kind: d.kindOf(p.node), Required: slices.Contains(required, p.name), About: about, Limits: limits(p.node),
		})
		out = append(out, d.fields(inner(p.node), within+p.name+".")...)
	}
	return out
}

// inner is the object without a name of its own that a value, or an element of a list, is; nil if it isn't one.
func inner(n *yaml.Node) *yaml.Node {
	if text(n, "$ref") != "" {
		return nil
	}
	if text(n, "type") == "array" {
		return inner(get(n, "items"))
	}
	return n
}

func (d document) kindOf(n *yaml.Node) kind {
	if n == nil {
		return kind{}
	}
	if _, name := d.resolve(n); name != "" {
		return kind{Name: name, Link: "#schema-" + name}
	}
	if one := items(n, "oneOf"); len(one) > 0 {
		return d.oneOf(one)
	}
	switch t := text(n, "type"); {
	case t == "array":
		k := d.kindOf(get(n, "items"))
		k.Before = "list of " + k.Before
		return k
	case t == "object" && get(n, "additionalProperties") != nil && get(n, "additionalProperties").Kind == yaml.MappingNode:
		k := d.kindOf(get(n, "additionalProperties"))
		k.Before = "map of " + k.Before
		return k
	case len(texts(n, "enum")) > 0:
		return kind{Name: "one of " + strings.Join(texts(n, "enum"), ", ")}
	case text(n, "format") == "date-time":
		return kind{Name: "time"}
	case text(n, "contentEncoding") != "":
		return kind{Name: t, After: " in " + text(n, "contentEncoding")}
	default:
		return kind{Name: t}
	}
}

// oneOf is for what may be null; our document has no other alternatives.
func (d document) oneOf(nodes []*yaml.Node) kind {
	k := d.kindOf(nodes[0])
	for _, n := range nodes[1:] {
		k.After += " or " + d.kindOf(n).Name
	}
	return k
}

// limits are a value's bounds in words.
func limits(n *yaml.Node) []string {
	var out []string
	between := func(least, most, unit string) {
		least, most = text(n, least), text(n, most)
		switch {
		case least != "" && most != "":
			out = append(out, least+" to "+most+unit)
		case most != "":
			out = append(out, "at most "+most+unit)
		case least != "":
			out = append(out, "at least "+least+unit)
		}
	}
	between("minimum", "maximum", "")
	between("minLength", "maxLength", " characters")
	between("minItems", "maxItems", " entries")
	between("minProperties", "maxProperties", " entries")
	if p := text(n, "pattern"); p != "" {
		out = append(out, "matches "+p)
	}
	if v := text(n, "default"); v != "" {
		out = append(out, "default "+v)
	}
	return out
}
