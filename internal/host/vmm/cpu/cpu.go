// Package cpu names the host's processor, so that a snapshot of a machine which sees it isn't loaded on another one.
package cpu

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// Host names this host's processor: vendor, family, model and stepping.
func Host() (string, error) {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "", fmt.Errorf("name this host's processor: %w", err)
	}
	defer f.Close()
	found := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan() && lines.Text() != ""; { // the first processor's
		k, v, _ := strings.Cut(lines.Text(), ":")
		found[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	return strings.Join([]string{found["vendor_id"], found["cpu family"], found["model"], found["stepping"]}, "-"), nil
}
