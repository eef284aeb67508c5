package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPurgeOfACheckout: hack/purge removes the platforms of its own checkout, and no other.
func TestPurgeOfACheckout(t *testing.T) {
	checkout := t.TempDir()
	script, err := os.ReadFile("../../hack/purge")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(checkout, "bin")
	stub := fmt.Sprintf(`#!/bin/sh
[ "$1" = instances ] || { echo "$@" >>%[1]s/purged; exit; }
echo 'NAME    URL                    RUNNING  BUILD'
echo 'ours    http://127.0.0.1:7700  true     %[1]s'
echo 'demo    http://127.0.0.1:7710  true     /elsewhere/bin'
echo 'sub     http://127.0.0.1:7720  false    %[1]s/bin'
echo 'old     http://127.0.0.1:7730  false'
`, bin)
	for name, content := range map[string]string{"hack/purge": string(script), "bin/space": stub} {
		path := filepath.Join(checkout, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(checkout, "hack/purge")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	purged, err := os.ReadFile(filepath.Join(bin, "purged"))
	if err != nil || strings.TrimSpace(string(purged)) != "purge --instance ours --yes" {
		t.Errorf("purged %q, %v", purged, err)
	}
}
