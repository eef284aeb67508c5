package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestListIsOfToday: every mutant still applies, and the test that must find it is there. Whether it does is told by 'make mutants'.
func TestListIsOfToday(t *testing.T) {
	t.Chdir("../..")
	names := map[string]bool{}
	for _, m := range mutants {
		if names[m.name] {
			t.Errorf("%s: two have the name", m.name)
		}
		names[m.name] = true
		text, err := m.apply(m.file)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if strings.TrimSpace(m.old) == strings.TrimSpace(m.new) || text == "" {
			t.Errorf("%s: nothing is changed", m.name)
		}
		if !has(t, m) {
			t.Errorf("%s: %s has no %s", m.name, m.pkg, m.test)
		}
	}
}

// has tells whether a mutant's test is in its package.
func has(t *testing.T, m mutant) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(m.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(m.test, "/")
	def := regexp.MustCompile(`(?m)^func ` + name + `\(`)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if def.Match(b) {
			return true
		}
	}
	return false
}
