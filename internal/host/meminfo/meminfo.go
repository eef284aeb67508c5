// Package meminfo reads how much memory the machine has.
package meminfo

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Facts are in bytes. What the kernel doesn't tell is 0.
type Facts struct {
	Total     int64
	Available int64 // that the kernel would give to somebody who asks, page cache that it can drop included
	Swap      int64
}

// Read reads the kernel's view of the whole machine, /proc/meminfo (see proc_meminfo(5)).
func Read() (Facts, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return Facts{}, fmt.Errorf("see how much memory there is: %w", err)
	}
	return parse(string(b)), nil
}

func parse(s string) Facts {
	values := map[string]int64{}
	for line := range strings.Lines(s) {
		if f := strings.Fields(line); len(f) >= 2 {
			n, _ := strconv.ParseInt(f[1], 10, 54) // kibibytes: their bytes fit into 64 bits
			values[f[0]] = n << 10
		}
	}
	return Facts{Total: values["MemTotal:"], Available: values["MemAvailable:"], Swap: values["SwapTotal:"]}
}
