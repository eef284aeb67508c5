package templates

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

func anyBuild(t *rapid.T) record.Build {
	text := rapid.StringMatching(`[a-z]{1,3}`)
	upload := rapid.SampledFrom([]string{"upl_a", "upl_b", "upl_c"})
	b := record.Build{Source: rapid.SampledFrom([]record.Source{
		{Recipe: "mini"}, {Image: "alpine"}, {Image: "debian"}, {Template: "tpl_a"}, {Archive: "upl_a"}, {Rootfs: "upl_a"}, {Rootfs: "upl_b"},
		{Debian: &record.Debian{Suite: "bookworm"}}, {Debian: &record.Debian{Suite: "bookworm", Packages: []string{"git"}}},
	}).Draw(t, "source")}
	for range rapid.IntRange(0, 3).Draw(t, "steps") {
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			b.Steps = append(b.Steps, record.Step{Run: text.Draw(t, "run")})
		case 1:
			b.Steps = append(b.Steps, record.Step{Copy: &record.Copy{Upload: upload.Draw(t, "upload"), To: "/" + text.Draw(t, "to")}})
		default:
			b.Steps = append(b.Steps, record.Step{Set: &record.Defaults{Env: map[string]string{"A": text.Draw(t, "value")}}})
		}
	}
	if rapid.Bool().Draw(t, "start") {
		b.StartCommand = text.Draw(t, "start command")
	}
	if rapid.Bool().Draw(t, "user") {
		b.Defaults.User = text.Draw(t, "user")
	}
	b.NoCache = rapid.Bool().Draw(t, "no cache")
	return b
}

// TestContentHash compares the hash of two builds with the builds: equal if and only if they differ in nothing but the cache's use and the
// ids of uploads of the same digest.
func TestContentHash(t *testing.T) {
	digests := map[string]string{"upl_a": "1111", "upl_b": "1111", "upl_c": ""}
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyBuild(t), anyBuild(t)
		shape := record.Shape{VCPUs: 1, MemoryBytes: 2, DiskBytes: 3}
		other := shape
		other.DiskBytes += uint64(rapid.IntRange(0, 1).Draw(t, "another size"))
		before, _ := json.Marshal(a)
		ha, err := hashContent(a, shape, digests)
		if err != nil {
			t.Fatal(err)
		}
		hb, err := hashContent(b, other, digests)
		if err != nil {
			t.Fatal(err)
		}
		if after, _ := json.Marshal(a); string(after) != string(before) {
			t.Fatal("hashing changed the build")
		}
		same := shape == other && cmp.Equal(plain(a), plain(b))
		if same != (ha == hb) {
			t.Fatalf("the same: %v, but hashes %x and %x of\n%s", same, ha, hb, cmp.Diff(a, b))
		}
	})
}

// plain is a build with what doesn't count taken out.
func plain(b record.Build) record.Build {
	b.NoCache = false
	one := func(id string) string {
		if id == "upl_b" {
			return "upl_a"
		}
		return id
	}
	b.Source.Archive, b.Source.Rootfs = one(b.Source.Archive), one(b.Source.Rootfs)
	steps := b.Steps
	b.Steps = nil
	for _, s := range steps {
		if s.Copy != nil {
			c := *s.Copy
			c.Upload = one(c.Upload)
			s.Copy = &c
		}
		b.Steps = append(b.Steps, s)
	}
	return b
}

// TestMarkGaps drops lines of a log and reads the rest in pages: whoever reads on after each page gets each line that is kept once, in
// order, and is told of all that aren't.
func TestMarkGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := int64(rapid.IntRange(0, 30).Draw(t, "lines"))
		var kept []record.LogLine
		for i := int64(1); i <= n; i++ {
			if rapid.Bool().Draw(t, "kept") {
				kept = append(kept, record.LogLine{Number: i, Text: fmt.Sprint(i)})
			}
		}
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		after, covered, got := int64(0), int64(0), 0
		for range 100 {
			page := kept[got:min(got+limit, len(kept))]
			lines := markGaps(after, page)
			if len(lines) > limit {
				lines = lines[:limit]
			}
			for _, l := range lines {
				if got < len(kept) && l == kept[got] {
					got++
					if l.Number != covered+1 {
						t.Fatalf("line %d comes after %d without a word", l.Number, covered)
					}
				} else if want := fmt.Sprintf("… lines %d to %d are no longer kept", covered+1, l.Number); l.Text != want {
					t.Fatalf("%q, want %q", l.Text, want)
				}
				covered, after = l.Number, l.Number
			}
			if len(page) == 0 {
				break
			}
		}
		if got != len(kept) {
			t.Fatalf("%d of %d lines", got, len(kept))
		}
	})
}

func TestDescribe(t *testing.T) {
	id := space.NewID(space.PrefixTemplate)
	for want, b := range map[string]record.Build{
		"recipe base":                {Source: record.Source{Recipe: "base"}},
		"image alpine and 1 step":    {Source: record.Source{Image: "alpine"}, Steps: make([]record.Step, 1)},
		"debian trixie and 2 steps":  {Source: record.Source{Debian: &record.Debian{Suite: "trixie"}}, Steps: make([]record.Step, 2)},
		"template base (" + id + ")": {Source: record.Source{Template: id}},
		"archive upl_a":              {Source: record.Source{Archive: "upl_a"}},
		"rootfs upl_b":               {Source: record.Source{Rootfs: "upl_b"}},
	} {
		if got := describe(b, &record.Template{ID: id, Name: "base"}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
