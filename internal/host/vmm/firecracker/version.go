package firecracker

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
)

// supported are the minor releases that the driver is tested with, the newest first. Firecracker itself supports its two newest.
var supported = []release{{1, 16}, {1, 15}}

// overridesVsock is the first release in which a load can give the vsock device another socket.
var overridesVsock = release{1, 16}

// awaitsReset is the first release whose vsock device lets nobody in after a load before the guest has ended the connections that it had when it
// was saved. Before, one that comes too early ends with them.
var awaitsReset = release{1, 16}

// forgetsVsock is the release in which the vsock device delivers nothing to the guest after a pause and a resume, until the guest has taken note of
// a reset that was only announced if the machine was saved in between (Firecracker's pull request 6100, in no release yet).
var forgetsVsock = release{1, 16}

// release is a minor release.
type release struct{ major, minor int }

func (r release) String() string { return fmt.Sprintf("%d.%d", r.major, r.minor) }

func (r release) atLeast(o release) bool {
	return r.major > o.major || r.major == o.major && r.minor >= o.minor
}

// version is Firecracker's. A snapshot is loaded by the version that made it.
type version struct {
	release
	patch int
}

func (v version) String() string { return fmt.Sprintf("%s.%d", v.release, v.patch) }

// The words with which the two programs begin to say their versions.
const (
	programWord = "Firecracker"
	jailerWord  = "Jailer"
)

var versionRE = regexp.MustCompile(`(?m)^(` + programWord + `|` + jailerWord + `) v(\d{1,4})\.(\d{1,4})\.(\d{1,4})$`)

// versionOf is the version of the Firecracker that a machine was started with.
func versionOf(m vmm.Manifest) (version, error) {
	return parseVersion([]byte(programWord+" v"+m.Version), programWord)
}

// parseVersion reads what the program of a word says.
func parseVersion(b []byte, word string) (version, error) {
	m := versionRE.FindSubmatch(b)
	if m == nil {
		return version{}, fmt.Errorf("no version of a release in %.100q", b)
	}
	if string(m[1]) != word {
		return version{}, fmt.Errorf("it's the %s, not the %s", m[1], word)
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(string(m[i+2])) // four digits
	}
	return version{release{n[0], n[1]}, n[2]}, nil
}

func readVersion(ctx context.Context, program, word string) (version, error) {
	out, err := monitor.AskVersion(ctx, program)
	if err != nil {
		return version{}, err
	}
	v, err := parseVersion(out, word)
	if err != nil {
		return version{}, fmt.Errorf("ask %s for its version: %w", program, err)
	}
	if !slices.Contains(supported, v.release) {
		return version{}, fmt.Errorf("%s is version %s, which isn't supported: %s are", program, v, Supported())
	}
	return v, nil
}

// Supported names the releases that the driver takes.
func Supported() string {
	var names []string
	for _, r := range supported {
		names = append(names, r.String()+".x")
	}
	return strings.Join(names, " and ")
}

// Version asks a firecracker and its jailer for their version, and refuses one that isn't supported, and two that aren't one.
func Version(ctx context.Context, program, jailer string) (string, error) {
	v, err := pair(ctx, program, jailer)
	if err != nil {
		return "", err
	}
	return v.String(), nil
}

// pair reads the version of a firecracker and its jailer, which belong together.
func pair(ctx context.Context, program, jailer string) (version, error) {
	v, err := readVersion(ctx, program, programWord)
	if err != nil {
		return v, err
	}
	j, err := readVersion(ctx, jailer, jailerWord)
	if err != nil {
		return v, err
	}
	if v != j {
		return v, fmt.Errorf("%s is version %s and %s is version %s: they must be of one release", program, v, jailer, j)
	}
	return v, nil
}
