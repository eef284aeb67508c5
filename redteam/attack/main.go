// Attack runs as root in a guest and does what a kernel of the attacker's would do: it touches devices, memory and limits that nobody should. What it
// is refused it says and goes on. The tests build it and bring it into the guest.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guest is the first process of every guest.
const guest = "spaced-guest"

func main() {
	attacks := map[string]func(arg string) error{
		"ports": ports, "physical": physical, "module": module, "hog": hog, "descriptors": descriptors, "timers": timers, "block": block,
	}
	if len(os.Args) != 3 || attacks[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: attack NAME ARGUMENT")
		os.Exit(2)
	}
	if first, err := os.ReadFile("/proc/1/comm"); err != nil || string(first) != guest+"\n" {
		fmt.Fprintf(os.Stderr, "this machine's first process is %q, not %s: it's no guest, and stays whole\n", first, guest)
		os.Exit(2)
	}
	if err := attacks[os.Args[1]](os.Args[2]); err != nil {
		fmt.Println("ended:", err)
		os.Exit(1)
	}
	fmt.Println("done")
}

// physical maps pages of physical memory where devices are or nothing is, and reads and writes them.
func physical(string) error {
	fd, err := unix.Open("/dev/mem", unix.O_RDWR|unix.O_SYNC, 0)
	if err != nil {
		return err
	}
	touched := 0
	for _, from := range []int64{0xc0000000, 0xd0000000, 0xe0000000, 0xfeb00000, 0xfec00000, 0xfed00000, 0xfee00000, 0xfff00000, 1 << 32, 1 << 38} {
		for page := range int64(32) {
			m, err := unix.Mmap(fd, from+page*4096, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				continue
			}
			touched++
			for at := 0; at < 4096; at += 4 {
				word := (*uint32)(unsafe.Pointer(&m[at]))
				*word = ^*word
			}
			unix.Munmap(m)
		}
	}
	fmt.Println("pages:", touched)
	return nil
}

// module asks the kernel to load one, to start another kernel, and to take code and page tables from physical memory.
func module(string) error {
	garbage := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 4096)...)
	arguments := []byte{0}
	_, _, errno := unix.Syscall(unix.SYS_INIT_MODULE, uintptr(unsafe.Pointer(&garbage[0])), uintptr(len(garbage)), uintptr(unsafe.Pointer(&arguments[0])))
	fmt.Println("init_module:", errno)
	segment := struct{ buf, bufsz, mem, memsz uintptr }{uintptr(unsafe.Pointer(&garbage[0])), 4096, 0x100000, 4096}
	_, _, errno = unix.Syscall6(unix.SYS_KEXEC_LOAD, 0x100000, 1, uintptr(unsafe.Pointer(&segment)), 62<<16, 0, 0)
	fmt.Println("kexec_load:", errno)
	fd, err := unix.Open("/dev/mem", unix.O_RDWR, 0)
	if err != nil {
		fmt.Println("/dev/mem:", err)
		return nil
	}
	for at := int64(0); at < 1<<26; at += 4096 { // what is refused is refused
		unix.Pwrite(fd, garbage[:4096], at)
	}
	return nil
}

// hog takes as much memory as is asked for in MiB, and locks it.
func hog(mib string) error {
	n, err := strconv.Atoi(mib)
	if err != nil {
		return err
	}
	unix.Mlockall(unix.MCL_FUTURE)
	for range n {
		m, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		for at := 0; at < len(m); at += 4096 {
			m[at] = 1
		}
	}
	return nil
}

// descriptors opens files and sockets until there are no more, and keeps them for so many seconds.
func descriptors(seconds string) error {
	n, err := strconv.Atoi(seconds)
	if err != nil {
		return err
	}
	limit := unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}
	unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	files, sockets := 0, 0
	for {
		_, fileErr := unix.Open("/dev/null", unix.O_RDONLY, 0)
		if fileErr == nil {
			files++
		}
		_, socketErr := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if socketErr == nil {
			sockets++
		}
		if fileErr != nil && socketErr != nil {
			fmt.Println("full:", files, sockets, fileErr, socketErr)
			break
		}
	}
	time.Sleep(time.Duration(n) * time.Second)
	return nil
}

// timers sets many fast ones and burns the processors for so many seconds.
func timers(seconds string) error {
	n, err := strconv.Atoi(seconds)
	if err != nil {
		return err
	}
	end := time.Now().Add(time.Duration(n) * time.Second)
	for range 64 {
		go func() {
			fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, 0)
			if err != nil {
				return
			}
			each := unix.ItimerSpec{Interval: unix.Timespec{Nsec: 1000}, Value: unix.Timespec{Nsec: 1000}}
			unix.TimerfdSettime(fd, 0, &each, nil)
			b := make([]byte, 8)
			for time.Now().Before(end) {
				unix.Read(fd, b)
			}
		}()
	}
	for time.Now().Before(end) {
	}
	return nil
}

// block does to a block device what its size and its file system don't allow.
func block(device string) error {
	fd, err := unix.Open(device, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	size, err := unix.Seek(fd, 0, unix.SEEK_END)
	if err != nil {
		return err
	}
	fmt.Println("bytes:", size)
	sector := make([]byte, 4096)
	for _, at := range []int64{size, size + 1<<20, size + 1<<30, 1 << 40, 1<<62 - 4096} {
		if n, err := unix.Pwrite(fd, sector, at); err == nil {
			fmt.Println("beyond the end:", at, n)
		}
	}
	span := [2]uint64{uint64(size) / 2, uint64(size) / 4}
	for name, request := range map[string]uintptr{"discard": unix.BLKDISCARD, "secure discard": unix.BLKSECDISCARD, "zero": 0x127f} {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&span)))
		fmt.Println(name+":", errno)
	}
	beyond := [2]uint64{uint64(size), 1 << 30}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.BLKDISCARD, uintptr(unsafe.Pointer(&beyond))); errno == 0 {
		fmt.Println("beyond the end: discarded")
	}
	for range 500 { // a storm of flushes
		unix.Pwrite(fd, sector, size/2)
		if err := unix.Fsync(fd); err != nil {
			return err
		}
	}
	return nil
}
