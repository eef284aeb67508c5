package space

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestListsAreWhole compares the lists of the vocabulary with the constants. One that misses a word hides what is in that state: a list of
// sandboxes once left stopped ones out.
func TestListsAreWhole(t *testing.T) {
	for name, listed := range map[string][]string{
		"State":          words(States()),
		"ExecutionState": words(ExecutionStates()),
		"Code":           words(Codes()),
		"Role":           words(Roles()),
		"Permission":     words(slices.Collect(maps.Keys(leastRole))),
	} {
		slices.Sort(listed)
		if diff := cmp.Diff(constants(t, name), listed); diff != "" {
			t.Errorf("the list of every %s (-constants +list):\n%s", name, diff)
		}
	}
}

func words[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}

// constants are the values of a type's constants, sorted.
func constants(t *testing.T, of string) (out []string) {
	t.Helper()
	for _, file := range []string{"state.go", "error.go", "role.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == of {
				value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, value)
			}
			return true
		})
	}
	slices.Sort(out)
	return out
}
