package main

import (
	"strings"
	"testing"
)

// TestUpNamesTheInstance: what is said to come next goes to the platform that is up.
func TestUpNamesTheInstance(t *testing.T) {
	for current, want := range map[string]string{
		"demo":    "\nNext: space template build base && space run base -- uname -a\n",
		"default": "\nNext: space template build --instance demo base && space run --instance demo base -- uname -a\n",
	} {
		var b strings.Builder
		if err := (upResult{Instance: "demo"}).show(&b, current); err != nil || !strings.HasSuffix(b.String(), want) {
			t.Errorf("current is %s: %q, %v, want %q at its end", current, b.String(), err, want)
		}
	}
}
