package record_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/space-platform/space/internal/control/record"
)

func TestFill(t *testing.T) {
	d := record.Defaults{Env: map[string]string{"A": "template", "B": "template", "C": "template"}, User: "www-data", Workdir: "/srv"}
	sandbox := map[string]string{"B": "sandbox", "C": "sandbox"}
	asked := record.Spec{Argv: []string{"id"}, Env: map[string]string{"C": "session", "D": ""}}
	want := record.Spec{
		Argv: []string{"id"}, Env: map[string]string{"A": "template", "B": "sandbox", "C": "session", "D": ""}, User: "www-data", Cwd: "/srv",
	}
	if diff := cmp.Diff(want, d.Fill(asked, sandbox)); diff != "" {
		t.Error(diff)
	}
	if len(asked.Env) != 2 || len(d.Env) != 3 || len(sandbox) != 2 {
		t.Error("what was given was changed")
	}
	asked.User, asked.Cwd = "root", "/"
	if got := d.Fill(asked, nil); got.User != "root" || got.Cwd != "/" || got.Env["B"] != "template" {
		t.Errorf("%+v", got)
	}
	if got := (record.Defaults{}).Fill(record.Spec{}, nil); len(got.Env) != 0 || got.User != "" || got.Cwd != "" {
		t.Errorf("%+v", got)
	}
}

func TestUploadsOfABuild(t *testing.T) {
	b := record.Build{Source: record.Source{Rootfs: "upl_r"}, Steps: []record.Step{
		{Run: "true"}, {Copy: &record.Copy{Upload: "upl_b"}}, {Copy: &record.Copy{Upload: "upl_r"}}, {Copy: &record.Copy{Upload: "upl_b"}},
	}}
	if diff := cmp.Diff([]string{"upl_r", "upl_b"}, b.Uploads()); diff != "" {
		t.Error(diff)
	}
	if got := (record.Build{Source: record.Source{Recipe: "mini"}}).Uploads(); len(got) > 0 {
		t.Error(got)
	}
}
