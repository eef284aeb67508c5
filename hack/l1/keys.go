package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Linux patches its code when the first machine begins and the last one ends, the same for the first group with a limit of its processors: it puts a
// breakpoint there, and takes it away. QEMU before 8.1 may go on with the breakpoint when one processor translates code while another changes it
// (mended there by "accel/tcg: Always lock pages before translation"): the processor then runs into it for ever, in the scheduler with a lock held, and
// the L1 stands still. So the L1 itself has a machine that never runs and a group that is always empty: what is patched is patched once.

// The calls of Linux's linux/kvm.h.
const (
	kvmCreateVM      = 0xae01
	kvmCreateIRQChip = 0xae60
	kvmCreateVCPU    = 0xae41
	kvmGetSregs      = 0x8138ae83
	kvmSetSregs      = 0x4138ae84

	sregsBytes     = 312
	apicBaseOffset = 272     // of the interrupt controller's base in them
	apicEnabled    = 1 << 11 // in that base
)

// holdMachine makes a machine whose interrupt controller is off, which is counted, too. It lasts as long as this process: its descriptors stay open.
func holdMachine() error {
	kvm, err := unix.Open("/dev/kvm", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("hold a machine: open /dev/kvm: %w", err)
	}
	var sregs [sregsBytes]byte
	vm, err := ioctl(kvm, kvmCreateVM, 0)
	if err == nil {
		_, err = ioctl(vm, kvmCreateIRQChip, 0)
	}
	vcpu := -1
	if err == nil {
		vcpu, err = ioctl(vm, kvmCreateVCPU, 0)
	}
	if err == nil {
		_, err = ioctl(vcpu, kvmGetSregs, uintptr(unsafe.Pointer(&sregs)))
	}
	if err == nil {
		*(*uint64)(unsafe.Pointer(&sregs[apicBaseOffset])) &^= apicEnabled
		_, err = ioctl(vcpu, kvmSetSregs, uintptr(unsafe.Pointer(&sregs)))
	}
	if err != nil {
		return fmt.Errorf("hold a machine: %w", err)
	}
	return nil
}

// ioctl calls KVM, again as long as one of Go's signals interrupts it.
func ioctl(fd int, call, argument uintptr) (int, error) {
	const most = 100
	for try := 1; ; try++ {
		result, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), call, argument)
		if errno == 0 {
			return int(result), nil
		}
		if errno != unix.EINTR || try == most {
			return -1, fmt.Errorf("ioctl %#x: %w", call, errno)
		}
	}
}

// holdCgroup makes an empty group with a limit of its processors.
func holdCgroup(version int) error {
	group, limit, value := filepath.Join(cgroupTop, "cpu,cpuacct", "l1"), "cpu.cfs_quota_us", "100000"
	var err error
	if version == 2 {
		err = os.WriteFile(filepath.Join(cgroupTop, "cgroup.subtree_control"), []byte("+cpu"), 0)
		group, limit, value = filepath.Join(cgroupTop, "l1"), "cpu.max", "100000 100000"
	}
	if err = errors.Join(err, os.Mkdir(group, 0o755), os.WriteFile(filepath.Join(group, limit), []byte(value), 0)); err != nil {
		return fmt.Errorf("hold a group: %w", err)
	}
	return nil
}
