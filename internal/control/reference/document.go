// Package reference makes a page to read from the API's OpenAPI document: every operation with its parameters, bodies, answers and an
// example, every schema, every error. The page is made once, holds all that it needs and runs no scripts.
//
// It's not a general renderer of OpenAPI: it knows what our document uses, and a test holds that nothing in it is left out.
package reference

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is an OpenAPI document whose order and references are kept.
type document struct {
	root *yaml.Node
}

func parse(text string) (document, error) {
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err != nil {
		return document{}, fmt.Errorf("read the API's document: %w", err)
	}
	if len(n.Content) != 1 || n.Content[0].Kind != yaml.MappingNode {
		return document{}, fmt.Errorf("read the API's document: it isn't a mapping")
	}
	return document{root: n.Content[0]}, nil
}

// pair is a member of a mapping.
type pair struct {
	name string
	node *yaml.Node
}

// members are a mapping's members in their order; of anything else there are none.
func members(n *yaml.Node) []pair {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var out []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		out = append(out, pair{n.Content[i].Value, n.Content[i+1]})
	}
	return out
}

// get follows member names; nil if one isn't there.
func get(n *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		var next *yaml.Node
		for _, p := range members(n) {
			if p.name == name {
				next = p.node
			}
		}
		if n = next; n == nil {
			return nil
		}
	}
	return n
}

// text is a scalar's value; empty if it isn't there.
func text(n *yaml.Node, path ...string) string {
	if n = get(n, path...); n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// texts are the scalars of a list.
func texts(n *yaml.Node, path ...string) []string {
	n = get(n, path...)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	var out []string
	for _, item := range n.Content {
		out = append(out, item.Value)
	}
	return out
}

// items are the elements of a list.
func items(n *yaml.Node, path ...string) []*yaml.Node {
	n = get(n, path...)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// resolve follows a reference within the document; other nodes are returned as they are. The name is the last part of the reference.
func (d document) resolve(n *yaml.Node) (node *yaml.Node, name string) {
	ref := text(n, "$ref")
	if ref == "" {
		return n, ""
	}
	path := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	return get(d.root, path...), path[len(path)-1]
}
