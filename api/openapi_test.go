package api_test

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	api "github.com/space-platform/space/api"
)

// TestEveryFieldIsDescribed, and every parameter: what it means, or what a schema that it refers to says.
func TestEveryFieldIsDescribed(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	if err != nil {
		t.Fatal(err)
	}
	var walk func(name string, s *openapi3.SchemaRef)
	walk = func(name string, s *openapi3.SchemaRef) {
		if s == nil || s.Ref != "" {
			return
		}
		for field, f := range s.Value.Properties {
			if f.Ref == "" && f.Value.Description == "" && len(f.Value.AllOf) == 0 {
				t.Errorf("%s.%s has no description", name, field)
			}
			walk(name+"."+field, f)
		}
		walk(name, s.Value.Items)
	}
	for name, s := range doc.Components.Schemas {
		walk(name, s)
	}
	for path, item := range doc.Paths.Map() {
		for _, o := range item.Operations() {
			for _, p := range append(item.Parameters, o.Parameters...) {
				if p.Value.Description == "" {
					t.Errorf("%s: parameter %s has no description", path, p.Value.Name)
				}
			}
		}
	}
}

// TestEveryTextThatComesInIsLimited looks at what a client sends: each text has a length or a pattern that bounds it, each number both ends, each list a
// number of items.
func TestEveryTextThatComesInIsLimited(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[*openapi3.Schema]bool{}
	var walk func(name string, s *openapi3.SchemaRef)
	walk = func(name string, s *openapi3.SchemaRef) {
		if s == nil || seen[s.Value] {
			return
		}
		v := s.Value
		seen[v] = true
		switch {
		case v.Type.Is("string") && v.MaxLength == nil && v.Pattern == "" && len(v.Enum) == 0 && v.Format != "date-time":
			t.Errorf("%s is a text without a limit", name)
		case (v.Type.Is("integer") || v.Type.Is("number")) && (v.Min == nil || v.Max == nil):
			t.Errorf("%s is a number without limits", name)
		case v.Type.Is("array") && v.MaxItems == nil:
			t.Errorf("%s is a list without a limit", name)
		}
		walk(name+"[]", v.Items)
		for field, f := range v.Properties {
			walk(name+"."+field, f)
		}
		walk(name+".*", v.AdditionalProperties.Schema)
	}
	for path, item := range doc.Paths.Map() {
		for method, o := range item.Operations() {
			for _, p := range append(item.Parameters, o.Parameters...) {
				walk(method+" "+path+" "+p.Value.Name, p.Value.Schema)
			}
			if o.RequestBody != nil {
				if m := o.RequestBody.Value.Content.Get("application/json"); m != nil {
					walk(method+" "+path, m.Schema)
				}
			}
		}
	}
}
