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
	const lacks = "it has no overlay, no FUSE, no tun and no nftables without modules, and a guest has none"
	switch {
	case f.forced != "" && f.forced != kernel.Tuned && f.forced != kernel.Cloud:
		return verdict{Fail, "the configuration asks for kernel " + string(f.forced), "no machine will start: want tuned, cloud or nothing", "sed -i /^kernel/d " + f.config}
	case err != nil:
		return verdict{Fail, err.Error(), "no machine will start", "sed -i /^kernel/d " + f.config}
	case f.Tuned:
		return fine("tuned " + f.Version + ", one for a single vCPU and one for more")
	case f.forced == kernel.Cloud:
		return verdict{Info, "Debian's for cloud guests, which the configuration chooses", lacks, "sed -i /^kernel/d " + f.config}
	case f.Version == "":
		return verdict{Info, "Debian's for cloud guests, which the first 'space up' fetches", lacks, ""}
	default:
		return verdict{Info, "Debian's for cloud guests, " + f.Version, lacks, ""}
	}
}
