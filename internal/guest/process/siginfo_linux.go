package process

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// siginfoPID reads si_pid of a child's signal, the first field of the union, which is aligned to a pointer.
func siginfoPID(info *unix.Siginfo) int {
	const union = 3*4 + (unsafe.Sizeof(uintptr(0)) - 4)
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), union)))
}
