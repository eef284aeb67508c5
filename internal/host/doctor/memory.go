package doctor

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

const (
	// memoryNeeded runs the platform and one small machine, memoryGood a few.
	memoryNeeded = 1 * gib
	memoryGood   = 4 * gib
)

func lookMemory(context.Context, Options) verdict {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return verdict{state: Fail, detail: err.Error()}
	}
	return judgeMemory(parseMeminfo(string(b)))
}

// memoryFacts are in bytes.
type memoryFacts struct{ total, available, swap int64 }

// parseMeminfo reads /proc/meminfo; what isn't there is 0.
func parseMeminfo(s string) memoryFacts {
	values := map[string]int64{}
	for line := range strings.Lines(s) {
		if f := strings.Fields(line); len(f) >= 2 {
			n, _ := strconv.ParseInt(f[1], 10, 54) // kibibytes: their bytes fit into 64 bits
			values[f[0]] = n << 10
		}
	}
	return memoryFacts{total: values["MemTotal:"], available: values["MemAvailable:"], swap: values["SwapTotal:"]}
}

func judgeMemory(f memoryFacts) verdict {
	detail := fmt.Sprintf("%s of %s available", gibs(f.available), gibs(f.total))
	const look = "ps --sort=-rss -eo rss,pid,comm | head"
	switch {
	case f.available < memoryNeeded:
		return verdict{Fail, detail, fmt.Sprintf("%s are needed for the platform and one machine", gibs(memoryNeeded)), look}
	case f.available < memoryGood:
		return verdict{Warn, detail, "room for very few machines", look}
	case f.swap > 0:
		return verdict{Warn, detail + fmt.Sprintf(", %s of swap", gibs(f.swap)), "memory of machines may be written to the host's swap, where secrets outlive them", "swapoff -a"}
	default:
		return fine(detail)
	}
}
