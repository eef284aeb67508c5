package record_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/space-platform/space/internal/control/record"
)

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
