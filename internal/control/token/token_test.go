package token

import (
	"strings"
	"testing"
)

func TestForm(t *testing.T) {
	good := Upload.Random()
	for s, want := range map[string]bool{
		good: true, Upload.Derive("k", "p", "x"): true, "": false, good[:len(good)-1]: false, good + "a": false, Sandbox.Random(): false,
		strings.ToUpper(good): false, good[:20] + "\n" + good[21:]: false, good[:20] + "1" + good[21:]: false, "x" + good: false,
	} {
		if Upload.Is(s) != want {
			t.Errorf("%q: want %v", s, want)
		}
	}
	if good == Upload.Random() {
		t.Error("two random tokens are the same")
	}
}

// TestDerivedTokensDiffer in all that they're derived from, and stay the same over versions: who holds one goes on using it.
func TestDerivedTokensDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range []string{
		Upload.Derive("k", "p", "x"), Upload.Derive("l", "p", "x"), Upload.Derive("k", "q", "x"), Upload.Derive("k", "p", "y"), Upload.Derive("k", "p", "x", "y"),
		Sandbox.Derive("k", "p", "x"), Upload.Derive("k", "p"),
	} {
		if seen[s] {
			t.Errorf("%s comes twice", s)
		}
		seen[s] = true
	}
	if got, want := Sandbox.Derive("space_key", "space sandbox token v1", "tok_1"), "spacesbx_aiofqx2i6zdsh34cnssyfn2cz5ied4keeujnwccm55vsiowonnva"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
