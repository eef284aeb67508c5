package temporary

import "testing"

func TestNamesAreKnownAgain(t *testing.T) {
	seen := map[string]bool{}
	for i := range 100 {
		name := Name(i%2 == 0)
		if replaces, ok := Parse(name); !ok || replaces != (i%2 == 0) || seen[name] || len(name) > 255 {
			t.Errorf("%s: %v, %v", name, replaces, ok)
		}
		seen[name] = true
	}
	for _, name := range []string{"", ".space", "a.space-upload-old-x", ".SPACE-UPLOAD-old-x"} {
		if _, ok := Parse(name); ok {
			t.Errorf("%q", name)
		}
	}
}
