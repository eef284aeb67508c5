package space

import "testing"

func TestEveryCodeHasItsTitle(t *testing.T) {
	seen := map[string]Code{}
	for _, c := range Codes() {
		title, ok := titles[c]
		if !ok || title == "" {
			t.Errorf("%s has no title", c)
		}
		if other, twice := seen[title]; twice {
			t.Errorf("%s and %s are both %q", c, other, title)
		}
		seen[title] = c
	}
}
