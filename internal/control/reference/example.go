package reference

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// environments are the shell variables that hold what opens an operation, by the document's security schemes.
var environments = map[string]string{"key": "SPACE_API_KEY", "attachment": "SPACE_ATTACHMENT_TOKEN", "sandbox": "SPACE_SANDBOX_TOKEN", "upload": "SPACE_UPLOAD_TOKEN"}

var placeholderRE = regexp.MustCompile(`\{([a-z]+)\}`)

// curl is a command that calls an operation. What it needs to know is in shell variables.
func (d document) curl(o operation, path, method *yaml.Node) string {
	base := "$SPACE_URL"
	if get(path, "servers") != nil || get(method, "servers") != nil {
		base = "$SPACE_EDGE_URL"
	}
	url := base + placeholderRE.ReplaceAllStringFunc(o.Path, func(s string) string { return "$" + strings.ToUpper(strings.Trim(s, "{}")) })
	args := []string{"curl"}
	if o.streams() {
		args[0] += " -N"
	}
	if o.Method != "GET" {
		args[0] += " -X " + o.Method
	}
	args[0] += ` "` + url + o.query() + `"`
	if len(o.Material) > 0 && environments[o.Material[0]] != "" {
		args = append(args, `-H "Authorization: Bearer $`+environments[o.Material[0]]+`"`)
	}
	if o.streams() {
		args = append(args, "-H 'Accept: text/event-stream'")
	}
	return strings.Join(append(args, d.data(o, method)...), " \\\n  ")
}

// streams reports whether an operation answers only with a stream.
func (o operation) streams() bool {
	return slices.ContainsFunc(o.Responses, func(r response) bool {
		return len(r.Body) == 1 && r.Body[0].Media == "text/event-stream"
	})
}

// query are the parameters without which the operation does nothing sensible.
func (o operation) query() string {
	var out []string
	for _, p := range o.Parameters {
		if p.In == "query" && (p.Required || p.Name == "wait") {
			value := "$" + strings.ToUpper(p.Name)
			if p.Name == "wait" {
				value = "30s"
			}
			out = append(out, p.Name+"="+value)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "?" + strings.Join(out, "&")
}

func (d document) data(o operation, method *yaml.Node) []string {
	if len(o.Body) == 0 {
		return nil
	}
	if media := o.Body[0].Media; media != "application/json" {
		return []string{"-H 'Content-Type: " + media + "'", "--data-binary @FILE"}
	}
	b, err := json.Marshal(d.sample("", get(method, "requestBody", "content", "application/json", "schema")))
	if err != nil {
		panic(err) // it's made of maps, lists and strings
	}
	return []string{"-H 'Content-Type: application/json'", "-d '" + strings.ReplaceAll(string(b), "'", `'\''`) + "'"}
}

// ordinary are values for fields by their names, where the document has no example.
var ordinary = map[string]any{
	"template": "base", "name": "example", "shell": "uname -a", "vcpus": 2, "memory_mb": 1024, "disk_mb": 4096, "path": "/home/user/notes.txt",
	"from": "/home/user/a", "to": "/home/user/b", "recipe": "base", "signal": "SIGINT", "rows": 40, "cols": 120, "sandboxes": 20,
}

// sample is a small body that an operation takes: the document's example, else what is required, else the first field.
func (d document) sample(name string, n *yaml.Node) any {
	n, _ = d.resolve(n)
	if e := get(n, "example"); e != nil {
		var out any
		if e.Decode(&out) == nil {
			return out
		}
	}
	if one := items(n, "oneOf"); len(one) > 0 {
		return d.sample(name, one[0])
	}
	if v, ok := ordinary[name]; ok && text(n, "type") != "object" {
		return v
	}
	if enum := texts(n, "enum"); len(enum) > 0 {
		return enum[min(1, len(enum)-1)]
	}
	switch text(n, "type") {
	case "object":
		return d.sampleObject(n)
	case "array":
		return []any{d.sample(name, get(n, "items"))}
	case "integer", "number":
		return 1
	case "boolean":
		return true
	default:
		return "…"
	}
}

func (d document) sampleObject(n *yaml.Node) map[string]any {
	out := map[string]any{}
	properties, required := members(get(n, "properties")), texts(n, "required")
	for _, p := range properties {
		if slices.Contains(required, p.name) {
			out[p.name] = d.sample(p.name, p.node)
		}
	}
	if len(out) == 0 && len(properties) > 0 {
		out[properties[0].name] = d.sample(properties[0].name, properties[0].node)
	}
	if len(properties) == 0 && get(n, "additionalProperties") != nil {
		out["name"] = "value"
	}
	return out
}
