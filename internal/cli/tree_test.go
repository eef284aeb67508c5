package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

func TestTree(t *testing.T) {
	at := func(minute int) time.Time { return epoch.Add(time.Duration(minute) * time.Minute) }
	box := func(id string, minute int, parent, of string) client.Sandbox {
		s := client.Sandbox{Id: id, State: "running", Template: "base", CreatedAt: at(minute)}
		if parent != "" {
			s.Parent = &gen.Parent{Sandbox: parent, Snapshot: of}
		}
		return s
	}
	shot := func(id, sandbox string, minute int, name string) client.Snapshot {
		bytes := int64(20 << 20)
		s := client.Snapshot{Id: id, Sandbox: sandbox, Kind: "full", Purpose: "asked", State: "ready", SizeBytes: &bytes, CreatedAt: at(minute)}
		if name != "" {
			s.Name = &name
		}
		return s
	}
	roots := grow(
		[]client.Sandbox{box("sbx_e", 9, "sbx_gone", "snp_named"), box("sbx_d", 5, "sbx_b", "snp_fork"), box("sbx_b", 3, "sbx_a", "snp_1"), box("sbx_a", 1, "", ""), box("sbx_f", 10, "sbx_away", "snp_away")},
		[]client.Snapshot{shot("snp_named", "sbx_gone", 8, "before"), shot("snp_2", "sbx_a", 4, ""), shot("snp_1", "sbx_a", 2, "")},
	)
	given := true
	roots[0].Below[1].Snapshot.GivenUp = &given
	for id, want := range map[string]int{"sbx_d": 0, "sbx_a": 0, "sbx_gone": 1, "sbx_e": 1, "snp_2": -1, "sbx_b2": -1} {
		if got := slices.IndexFunc(roots, func(r *twig) bool { return r.has(id) }); got != want {
			t.Errorf("%s is in tree %d, want %d", id, got, want)
		}
	}
	var out strings.Builder
	for _, r := range roots {
		if err := r.write(&out, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	want := `sbx_a  running  base
├─ snp_1  full asked, ready, 20 MiB
│  └─ sbx_b  running  base
│     └─ sbx_d  running  base
└─ snp_2  full asked, ready, given up, 20 MiB
sbx_gone  deleted
└─ snp_named  full asked, ready, 20 MiB  before
   └─ sbx_e  running  base
sbx_away  deleted
└─ sbx_f  running  base
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
