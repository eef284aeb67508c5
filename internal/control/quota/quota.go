// Package quota decides whether a project may have more. It's about what projects were promised, not about what nodes have: whether
// there is room for a machine is the node's to say.
package quota

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// Of is what a sandbox of a shape counts.
func Of(s record.Shape) record.Usage {
	return record.Usage{Sandboxes: 1, VCPUs: int64(s.VCPUs), MemoryBytes: int64(s.MemoryBytes), DiskBytes: int64(s.DiskBytes)}
}

// minTemplateDisk is what a template counts whose disk will be as large as its files need: the least that it can be.
const minTemplateDisk = 64 * record.MiB

// OfTemplate is what a template counts.
func OfTemplate(s record.Shape) record.Usage {
	return record.Usage{DiskBytes: max(int64(s.DiskBytes), minTemplateDisk)}
}

// OfStart is what a sandbox of a shape counts in addition when it is stopped and starts.
func OfStart(s record.Shape) record.Usage {
	u := Of(s)
	u.Sandboxes, u.DiskBytes = 0, 0
	return u
}

// OfResume is what a sandbox of a shape counts in addition when it is paused and resumes: its memory it has all the time.
func OfResume(s record.Shape) record.Usage { return record.Usage{VCPUs: int64(s.VCPUs)} }

// OfSnapshot is what a snapshot counts that is to be made: how much it takes is known when it's there.
func OfSnapshot() record.Usage { return record.Usage{DiskBytes: 1} }

// Check refuses more than a quota allows beside what is used. The error is quota_exceeded; its field is the quota's name in the API, its
// message has the limit and what is used. What isn't asked for more of is not looked at: a quota may have been set below what is used.
func Check(limit record.Quota, used, more record.Usage) error {
	for _, q := range []struct {
		name, unit       string
		limit            *int64
		used, more, size int64
	}{
		{"sandboxes", "sandboxes", limit.Sandboxes, used.Sandboxes, more.Sandboxes, 1},
		{"vcpus", "vCPUs", limit.VCPUs, used.VCPUs, more.VCPUs, 1},
		{"memory_mb", "MiB of memory", limit.MemoryBytes, used.MemoryBytes, more.MemoryBytes, record.MiB},
		{"disk_mb", "MiB of disk", limit.DiskBytes, used.DiskBytes, more.DiskBytes, record.MiB},
	} {
		if q.limit == nil || q.more == 0 || q.used+q.more <= *q.limit {
			continue
		}
		err := space.Errorf(space.CodeQuotaExceeded, "the project's quota is %d %s: %d are used and %d more are asked for; delete what isn't needed, or ask an owner for more",
			*q.limit/q.size, q.unit, up(q.used, q.size), up(q.more, q.size))
		err.Field = q.name
		return err
	}
	return nil
}

// up divides and rounds up: what is used in part is used.
func up(n, size int64) int64 { return (n + size - 1) / size }
