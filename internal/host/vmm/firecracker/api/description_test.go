package api_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
)

// descriptionVariable names a file with Firecracker's OpenAPI description, which is no part of this repository: src/firecracker/swagger/firecracker.yaml
// of its source. 'make test-firecracker' sets it from OPENAPI.
const descriptionVariable = "FIRECRACKER_OPENAPI"

// description is what of an OpenAPI description (version 2) says which calls there are and what they carry.
type description struct {
	Info        struct{ Version string }
	Paths       map[string]map[string]operation
	Definitions map[string]schema
}

type operation struct {
	Parameters []struct {
		In       string
		Required bool
		Schema   schema
	}
	Responses map[string]any
}

type schema struct {
	Ref        string `yaml:"$ref"`
	Type       string
	Properties map[string]schema
	Required   []string
	Items      *schema
	Enum       []string
	Minimum    *float64
	Maximum    *float64
}

// TestRecordedCallsFitTheDescription compares every call that Firecracker accepted with the description of the same version: there is such a call, with
// these fields and no others, and such an answer.
func TestRecordedCallsFitTheDescription(t *testing.T) {
	path := os.Getenv(descriptionVariable)
	if path == "" {
		t.Skipf("%s names no description", descriptionVariable)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var d description
	if err := yaml.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, x := range read(t, filepath.Join("testdata", "firecracker-"+d.Info.Version+".jsonl")) {
		if x.Status/100 == 2 {
			checked++
			if err := d.check(x); err != nil {
				t.Errorf("%s %s with %s: %v", x.Method, x.Path, x.Body, err)
			}
		}
	}
	if checked < len(calls) {
		t.Errorf("%d calls were compared, want %d", checked, len(calls))
	}
}

func (d description) check(x api.Exchange) error {
	o, ok := d.operation(x.Method, x.Path)
	if !ok {
		return fmt.Errorf("version %s has no such call", d.Info.Version)
	}
	if _, ok := o.Responses[strconv.Itoa(x.Status)]; !ok {
		return fmt.Errorf("no answer of status %d is described", x.Status)
	}
	for _, p := range o.Parameters {
		if p.In != "body" || len(x.Body) == 0 && !p.Required {
			continue
		}
		var v any
		if err := json.Unmarshal(x.Body, &v); err != nil {
			return err
		}
		return d.fits(p.Schema, v, "body")
	}
	return nil
}

// operation finds a call. A part of a path in braces stands for any name.
func (d description) operation(method, path string) (operation, bool) {
	for pattern, methods := range d.Paths {
		o, ok := methods[strings.ToLower(method)]
		if ok && slices.EqualFunc(strings.Split(pattern, "/"), strings.Split(path, "/"), func(p, s string) bool { return p == s || strings.HasPrefix(p, "{") }) {
			return o, true
		}
	}
	return operation{}, false
}

// fits says what a value has that isn't described.
func (d description) fits(s schema, v any, at string) error {
	if name, ok := strings.CutPrefix(s.Ref, "#/definitions/"); ok {
		return d.fits(d.Definitions[name], v, at)
	}
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			described, ok := s.Properties[name]
			if !ok {
				return fmt.Errorf("%s has no field %q", at, name)
			}
			if err := d.fits(described, field, at+"."+name); err != nil {
				return err
			}
		}
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				return fmt.Errorf("%s lacks %q", at, name)
			}
		}
	case []any:
		if s.Items == nil {
			return fmt.Errorf("%s is no array", at)
		}
		for i, item := range v {
			if err := d.fits(*s.Items, item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case string:
		if s.Type != "string" || s.Enum != nil && !slices.Contains(s.Enum, v) {
			return fmt.Errorf("%s is a %s of %q, not %q", at, s.Type, s.Enum, v)
		}
	case bool:
		if s.Type != "boolean" {
			return fmt.Errorf("%s is a %s", at, s.Type)
		}
	case float64:
		if s.Type != "integer" || s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum {
			return fmt.Errorf("%s is a %s and can't be %v", at, s.Type, v)
		}
	}
	return nil
}
