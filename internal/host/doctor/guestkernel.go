package doctor

import (
	"context"

	"github.com/space-platform/space/internal/host/kernel"
)

func lookGuestKernel(_ context.Context, o Options) verdict {
	p, err := kernel.Look(kernel.Options{Dir: o.Instance.KernelDir(), Kind: kernel.Kind(o.Config.Kernel)})
	return judgeGuestKernel(guestKernelFacts{Present: p, forced: kernel.Kind(o.Config.Kernel), config: o.Instance.ConfigFile()}, err)
}

// guestKernelFacts are what is known of the kernels that guests boot.
type guestKernelFacts struct {
	kernel.Present
	forced kernel.Kind // the configuration's
	config string      // the configuration's file
}

func judgeGuestKernel(f guestKernelFacts, err error) verdict {
	const slower = "machines boot, and their templates are built, at less than half the speed of tuned kernels, and their kernel has no overlay, no FUSE and no netfilter"
	switch {
	case f.forced != "" && f.forced != kernel.Tuned && f.forced != kernel.Cloud:
		return verdict{Fail, "the configuration asks for kernel " + string(f.forced), "no machine will start: want tuned, cloud or nothing", "sed -i /^kernel/d " + f.config}
	case err != nil:
		return verdict{Fail, err.Error(), "no machine will start", "make kernel"}
	case f.Tuned:
		return fine("tuned " + f.Version + ", one for a single vCPU and one for more")
	case f.forced == kernel.Cloud:
		return verdict{Info, "Debian's for cloud guests, which the configuration chooses", slower, "sed -i /^kernel/d " + f.config}
	case f.Version == "":
		return verdict{Info, "Debian's for cloud guests, which the first 'space up' fetches", slower, "make kernel"}
	default:
		return verdict{Info, "Debian's for cloud guests, " + f.Version, slower, "make kernel"}
	}
}
