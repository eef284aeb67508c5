package redteam

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTable holds README.md's table against the tests that there are, both ways, and each against its case.
func TestTable(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, line := range regexp.MustCompile(`(?m)^\| ([AER]\d\d) \|.*$`).FindAllStringSubmatch(string(readme), -1) {
		for _, name := range regexp.MustCompile(`Test[AER]\d\d\w+`).FindAllString(line[0], -1) {
			if !strings.HasPrefix(name, "Test"+line[1]) {
				t.Errorf("%s is in the row of %s", name, line[1])
			}
			listed = append(listed, name)
		}
	}
	var written []string
	files, err := filepath.Glob("[aer][0-9]*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			name := ""
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				name = fn.Name.Name
			}
			if !strings.HasPrefix(name, "Test") {
				continue
			}
			written = append(written, name)
			if id := strings.ToLower(name[len("Test"):][:3]); !strings.Contains(filepath.Base(file), id) {
				t.Errorf("%s is in %s", name, file)
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(written)
	if len(written) == 0 || !slices.Equal(listed, written) {
		t.Errorf("the table has\n%v\nthe tests are\n%v", listed, written)
	}
}
