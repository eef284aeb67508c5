package qemu

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/space-platform/space/internal/host/vmm/monitor"
)

// version is QEMU's: a microvm's saved state is promised to fit the same one only.
type version struct{ major, minor, micro int }

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.micro) }

func (v version) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}

var versionRE = regexp.MustCompile(`QEMU emulator version (\d{1,4})\.(\d{1,4})\.(\d{1,4})`)

func parseVersion(b []byte) (version, error) {
	m := versionRE.FindSubmatch(b)
	if m == nil {
		return version{}, fmt.Errorf("no version in %.100q", b)
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(string(m[i+1])) // four digits
	}
	return version{n[0], n[1], n[2]}, nil
}

func readVersion(ctx context.Context, program string) (version, error) {
	out, err := monitor.AskVersion(ctx, program)
	if err != nil {
		return version{}, err
	}
	v, err := parseVersion(out)
	if err != nil {
		return version{}, fmt.Errorf("ask %s for its version: %w", program, err)
	}
	return v, nil
}
