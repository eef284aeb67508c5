package doctor

import (
	"context"
	"fmt"

	"github.com/space-platform/space/internal/host/meminfo"
)

const (
	// memoryNeeded runs the platform and one small machine, memoryGood a few.
	memoryNeeded = 1 * gib
	memoryGood   = 4 * gib
)

func lookMemory(context.Context, Options) verdict {
	f, err := meminfo.Read()
	if err != nil {
		return verdict{state: Fail, detail: err.Error()}
	}
	return judgeMemory(f)
}

func judgeMemory(f meminfo.Facts) verdict {
	detail := fmt.Sprintf("%s of %s available", gibs(f.Available), gibs(f.Total))
	const look = "ps --sort=-rss -eo rss,pid,comm | head"
	switch {
	case f.Available < memoryNeeded:
		return verdict{Fail, detail, fmt.Sprintf("%s are needed for the platform and one machine", gibs(memoryNeeded)), look}
	case f.Available < memoryGood:
		return verdict{Warn, detail, "room for very few machines", look}
	case f.Swap > 0:
		return verdict{Warn, detail + fmt.Sprintf(", %s of swap", gibs(f.Swap)), "memory of machines may be written to the host's swap, where secrets outlive them", "swapoff -a"}
	default:
		return fine(detail)
	}
}
