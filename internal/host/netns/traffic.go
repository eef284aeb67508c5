package netns

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/space-platform/space/internal/host/thread"
)

// Traffic is what a device has carried since it was made, in bytes, as its namespace counts it.
type Traffic struct {
	Received uint64 // from whoever is at the tap's other end: sent by the guest
	Sent     uint64
}

// ReadTraffic reads the counters of a device in a namespace.
func ReadTraffic(name, device string) (t Traffic, err error) {
	if err := checkName(name); err != nil {
		return t, err
	}
	err = thread.Run(func() error {
		if err := Enter(Path(name)); err != nil {
			return err
		}
		f, err := os.Open("/proc/thread-self/net/dev")
		if err != nil {
			return err
		}
		defer f.Close()
		t, err = parseTraffic(f, device)
		return err
	})
	if err != nil {
		return Traffic{}, fmt.Errorf("read the counters of %s in network namespace %s: %w", device, name, err)
	}
	return t, nil
}

// parseTraffic finds a device's line: "NAME: RX-BYTES and seven more, TX-BYTES and seven more".
func parseTraffic(r io.Reader, device string) (Traffic, error) {
	const rxBytes, txBytes, columns = 0, 8, 16
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), ":")
		if !ok || strings.TrimSpace(name) != device {
			continue
		}
		f := strings.Fields(rest)
		if len(f) < columns {
			return Traffic{}, fmt.Errorf("%d columns", len(f))
		}
		received, rerr := strconv.ParseUint(f[rxBytes], 10, 64)
		sent, serr := strconv.ParseUint(f[txBytes], 10, 64)
		if rerr != nil || serr != nil {
			return Traffic{}, fmt.Errorf("counters %q, %q", f[rxBytes], f[txBytes])
		}
		return Traffic{Received: received, Sent: sent}, nil
	}
	if err := lines.Err(); err != nil {
		return Traffic{}, err
	}
	return Traffic{}, fmt.Errorf("no such device")
}
