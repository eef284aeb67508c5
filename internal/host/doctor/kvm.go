package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	kvmDevice = "/dev/kvm"
	// kvmCacheName has what was found out about KVM.
	kvmCacheName = "kvm.json"
)

// kvmFacts are what is known about hardware virtualisation.
type kvmFacts struct {
	device bool   // /dev/kvm is there
	broken string // why a guest doesn't run; "" if it does
	forced string // the configuration's acceleration
	config string // the configuration's file
}

func lookKVM(ctx context.Context, o Options) verdict {
	f := kvmFacts{forced: o.Config.Acceleration, config: o.Instance.ConfigFile()}
	err := KVM(ctx, o)
	f.device = !errors.Is(err, fs.ErrNotExist)
	if err != nil {
		f.broken = err.Error()
	}
	return judgeKVM(f)
}

const (
	noBoundary = "machines run under software emulation (TCG), about ten times slower. That is no boundary between tenants: only run code that you'd run here anyway"
	loadKVM    = "modprobe kvm_intel || modprobe kvm_amd"
	readKVM    = "dmesg | grep -i kvm"
)

func judgeKVM(f kvmFacts) verdict {
	works := f.device && f.broken == ""
	switch {
	case works && f.forced == "tcg":
		return verdict{Warn, "KVM works, and the configuration chooses TCG", noBoundary, "sed -i /^acceleration/d " + f.config}
	case works:
		return fine("a guest boots with KVM")
	case f.forced == "kvm":
		return verdict{Fail, "the configuration asks for KVM: " + brokenOrAbsent(f), "no machine will start", kvmFix(f)}
	default:
		return verdict{Warn, brokenOrAbsent(f) + "; TCG is used", noBoundary, kvmFix(f)}
	}
}

func brokenOrAbsent(f kvmFacts) string {
	if !f.device {
		return "there is no " + kvmDevice
	}
	return kvmDevice + " is there and doesn't work: " + f.broken
}

func kvmFix(f kvmFacts) string {
	if !f.device {
		return loadKVM
	}
	return readKVM // nothing here mends it: it's the host below, or its firmware
}

// KVM returns nil if guests run with hardware virtualisation, else why not; fs.ErrNotExist is wrapped if there isn't even a device. The
// device alone proves nothing, so a tiny guest is booted. The answer is cached, a no for ten minutes, for as long as neither the boot, nor QEMU, nor the guest
// changes; a cache that can't be read or written is done without.
func KVM(ctx context.Context, o Options) error {
	if _, err := os.Stat(kvmDevice); err != nil {
		return err
	}
	if unix.Access(kvmDevice, unix.R_OK|unix.W_OK) != nil {
		return fmt.Errorf("%s can't be opened by uid %d", kvmDevice, os.Geteuid())
	}
	version, err := qemuVersion(ctx)
	if err != nil {
		return fmt.Errorf("nothing can be booted: %w", err)
	}
	key := answerTo("QEMU "+version, guestROM())
	if a, ok := key.cached(o.CacheDir, kvmCacheName); ok {
		return a.err()
	}
	boot := o.BootKVM
	if boot == nil {
		boot = func(ctx context.Context) error { return BootGuest(ctx, qemuProgram, "kvm", guestDeadline) }
	}
	err = boot(ctx)
	if ctx.Err() == nil { // not when the caller gave up
		key.keep(o.CacheDir, kvmCacheName, err)
	}
	return err
}
