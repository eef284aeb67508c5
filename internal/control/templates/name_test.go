package templates

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

func TestParseRef(t *testing.T) {
	id := space.NewID(space.PrefixTemplate)
	for s, want := range map[string]record.TemplateRef{
		id:                             {ID: id},
		"web":                          {Name: "web"},
		"web:v1":                       {Name: "web", Tag: "v1"},
		"0.a-b_c:2026-11-30":           {Name: "0.a-b_c", Tag: "2026-11-30"},
		strings.Repeat("a", 63) + ":x": {Name: strings.Repeat("a", 63), Tag: "x"},
	} {
		got, err := ParseRef(s)
		if err != nil || got != want || got.String() != s {
			t.Errorf("%q: %+v, %v, want %+v", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", ":", "web:", ":v1", "web:v1:x", "Web", "-web", "web ", "we\x00b", "web/x", strings.Repeat("a", 64), "web:" + strings.Repeat("a", 64),
		"tpl_x", id + ":v1", strings.ToUpper(id), "ö", "web\n",
	} {
		if got, err := ParseRef(s); space.CodeOf(err) != space.CodeNotFound {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
}

// TestRefsHaveOneMeaning holds that no name is an id, and that a reference is read as it is written.
func TestRefsHaveOneMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,62}`).Draw(t, "name")
		tag := rapid.StringMatching(`([a-z0-9][a-z0-9._-]{0,62})?`).Draw(t, "tag")
		written := record.TemplateRef{Name: name, Tag: tag}
		got, err := ParseRef(written.String())
		switch {
		case strings.HasPrefix(name, "tpl_"):
			if err == nil && got.ID == "" {
				t.Fatalf("%q is a name", name)
			}
		case err != nil || got != written:
			t.Fatalf("%q was read as %+v, %v", written, got, err)
		}
	})
}

func FuzzParseRef(f *testing.F) {
	f.Add("web:v1")
	f.Add("tpl_aaaaaaaaaaaaaaaaaaaaaaaaaa")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRef(s)
		if err != nil {
			return
		}
		if r.String() != s || (r.ID == "") == (r.Name == "") || r.ID != "" && r.Tag != "" || strings.ContainsAny(s, "/\x00 '\"") {
			t.Errorf("%q was read as %+v", s, r)
		}
	})
}
