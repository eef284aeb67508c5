package firecracker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// maxTemplate bounds a CPU template: what Firecracker's API takes in one request, unless it's started with another limit.
const maxTemplate = 51200

// ReadTemplate reads a custom CPU template, for Config.CPU, and takes its white space out: two files that say the same are one template. What it says is
// for Firecracker to judge, when a machine boots. "" is no file and no template.
func ReadTemplate(path string) (json.RawMessage, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the CPU template: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTemplate+1))
	if err != nil {
		return nil, fmt.Errorf("read the CPU template: %w", err)
	}
	if len(b) > maxTemplate {
		return nil, fmt.Errorf("CPU template %s has more than %d bytes", path, maxTemplate)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(b, &object); err != nil || object == nil {
		return nil, fmt.Errorf("CPU template %s isn't a JSON object", path)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return nil, fmt.Errorf("CPU template %s: %w", path, err)
	}
	return out.Bytes(), nil
}
