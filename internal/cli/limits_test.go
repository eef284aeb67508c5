package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	api "github.com/space-platform/space/api"
)

// TestLimitsAreTheContracts compares what flags take with what the API does: who is refused here has to be refused there.
func TestLimitsAreTheContracts(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	if err != nil {
		t.Fatal(err)
	}
	for flag, field := range map[string]string{
		"sandbox create --vcpus": "SandboxCreate.vcpus", "sandbox create --memory-mb": "SandboxCreate.memory_mb", "sandbox create --disk-mb": "SandboxCreate.disk_mb",
		"template create --vcpus": "TemplateCreate.vcpus", "template create --memory-mb": "TemplateCreate.memory_mb", "template create --disk-mb": "TemplateCreate.disk_mb",
		"project create --sandboxes": "Quota.sandboxes", "project create --vcpus": "Quota.vcpus", "project create --memory-mb": "Quota.memory_mb", "project create --disk-mb": "Quota.disk_mb",
		"run --timeout": "SessionCreate.timeout_seconds", "exec --timeout": "SessionCreate.timeout_seconds", "sandbox create --lifetime": "Lifetime.seconds",
		"sandbox update --lifetime": "Lifetime.seconds", "sandbox token create --life": "SandboxTokenCreate.expires_in_seconds", "sandbox url create --life": "FileURLCreate.expires_in_seconds",
	} {
		command, name, _ := strings.Cut(flag, " --")
		c, _, err := Root().Find(strings.Fields(command))
		if err != nil || c.Flags().Lookup(name) == nil {
			t.Errorf("there is no %s", flag)
			continue
		}
		schema, property, _ := strings.Cut(field, ".")
		s := doc.Components.Schemas[schema]
		if s == nil || s.Value.Properties[property] == nil {
			t.Errorf("there is no %s", field)
			continue
		}
		want := s.Value.Properties[property].Value
		least, most := limitsOf(c.Flags().Lookup(name).Value)
		if schema == "Quota" {
			least++ // -1 removes a limit, which the API is told by leaving it out
		}
		if want.Min == nil || want.Max == nil || least != *want.Min || most != *want.Max {
			t.Errorf("%s takes %v to %v, %s %v to %v", flag, least, most, field, want.Min, want.Max)
		}
	}
}

// limitsOf are a flag's, in seconds if it's a time.
func limitsOf(v any) (least, most float64) {
	switch v := v.(type) {
	case number[int]:
		return float64(v.least), float64(v.most)
	case number[int64]:
		return float64(v.least), float64(v.most)
	case span:
		return float64(v.least) / float64(time.Second), float64(v.most) / float64(time.Second)
	}
	return -1, -1
}
