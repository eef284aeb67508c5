package jail

import (
	"fmt"

	"github.com/space-platform/space/internal/host/cgroup"
	"github.com/space-platform/space/internal/host/netns"
)

// Usage is what an enclosure's program uses.
type Usage struct {
	cgroup.Usage
	netns.Traffic // through its tap, seen from the host
}

// Measure reads what the enclosure's program uses, or has used since the enclosure was made.
func (j *Jail) Measure(s Spec) (u Usage, err error) {
	if err := j.check(s); err != nil {
		return u, err
	}
	group, err := j.group(s.ID)
	if err == nil {
		u.Usage, err = group.Usage()
	}
	if err == nil {
		u.Traffic, err = netns.ReadTraffic(j.netNS(s.ID), TapName)
	}
	if err != nil {
		return u, fmt.Errorf("measure enclosure %s: %w", s.ID, err)
	}
	return u, nil
}
