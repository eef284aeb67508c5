package quota_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/quota"
	"github.com/space-platform/space/internal/control/record"
)

func limited(t *rapid.T, name string) *int64 {
	if rapid.Bool().Draw(t, name+" is limited") {
		n := rapid.Int64Range(0, 100).Draw(t, name)
		return &n
	}
	return nil
}

func usage(t *rapid.T, name string) record.Usage {
	n := func(what string) int64 { return rapid.Int64Range(0, 60).Draw(t, name+" "+what) }
	return record.Usage{Sandboxes: n("sandboxes"), VCPUs: n("vcpus"), MemoryBytes: n("memory"), DiskBytes: n("disk")}
}

// TestCheckAllowsWhatFits holds the decision against its plain meaning: each of what is asked for fits beside what is used.
func TestCheckAllowsWhatFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := record.Quota{Sandboxes: limited(t, "sandboxes"), VCPUs: limited(t, "vcpus"), MemoryBytes: limited(t, "memory"), DiskBytes: limited(t, "disk")}
		used, more := usage(t, "used"), usage(t, "more")
		fits := func(limit *int64, used, more int64) bool { return limit == nil || more == 0 || used+more <= *limit }
		want := fits(limit.Sandboxes, used.Sandboxes, more.Sandboxes) && fits(limit.VCPUs, used.VCPUs, more.VCPUs) &&
			fits(limit.MemoryBytes, used.MemoryBytes, more.MemoryBytes) && fits(limit.DiskBytes, used.DiskBytes, more.DiskBytes)
		err := quota.Check(limit, used, more)
		if (err == nil) != want || err != nil && space.CodeOf(err) != space.CodeQuotaExceeded {
			t.Fatalf("limit %+v, used %+v, more %+v: %v, want allowed %v", limit, used, more, err, want)
		}
	})
}

func TestErrorNamesTheQuota(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	shape := record.Shape{VCPUs: 2, MemoryBytes: 512 * record.MiB, DiskBytes: 4096 * record.MiB}
	for _, x := range []struct {
		limit record.Quota
		used  record.Usage
		more  record.Usage
		field string
		words []string
	}{
		{record.Quota{Sandboxes: n(3)}, record.Usage{Sandboxes: 3}, quota.Of(shape), "sandboxes", []string{"3 sandboxes", "3 are used", "1 more"}},
		{record.Quota{VCPUs: n(5)}, record.Usage{VCPUs: 4}, quota.Of(shape), "vcpus", []string{"5 vCPUs", "4 are used", "2 more"}},
		{record.Quota{MemoryBytes: n(1024 * record.MiB)}, record.Usage{MemoryBytes: 600*record.MiB + 1}, quota.Of(shape), "memory_mb", []string{"1024 MiB of memory", "601 are used", "512 more"}},
		{record.Quota{DiskBytes: n(0)}, record.Usage{}, quota.Of(shape), "disk_mb", []string{"0 MiB of disk", "0 are used", "4096 more"}},
		{record.Quota{VCPUs: n(1)}, record.Usage{}, quota.OfStart(shape), "vcpus", nil},
	} {
		err, _ := quota.Check(x.limit, x.used, x.more).(*space.Error)
		if err == nil || err.Field != x.field {
			t.Errorf("%+v: %v, want the quota %s named", x.limit, err, x.field)
			continue
		}
		for _, w := range x.words {
			if !strings.Contains(err.Message, w) {
				t.Errorf("%q doesn't say %q", err.Message, w)
			}
		}
	}
	// A start asks for no place and no disk: a quota of those that is used up, or has been lowered, doesn't matter.
	full := record.Quota{Sandboxes: n(1), DiskBytes: n(1)}
	if err := quota.Check(full, record.Usage{Sandboxes: 5, DiskBytes: 5000}, quota.OfStart(shape)); err != nil {
		t.Error(err)
	}
}
