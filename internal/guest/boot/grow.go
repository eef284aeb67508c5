package boot

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where an ext4 superblock is on its disk, and what is needed of it.
const (
	superblockAt  = 1024
	superblockLen = 1024
	countLowAt    = 0x4   // blocks, 4 bytes
	blockSizeAt   = 0x18  // logarithm of the block's size, less 10; 4 bytes
	magicAt       = 0x38  // 2 bytes
	featuresAt    = 0x60  // incompatible ones, 4 bytes
	countHighAt   = 0x150 // 4 bytes, if the file system has 64 bits
	ext4Magic     = 0xEF53
	has64bit      = 0x80
	maxBlockShift = 6 // blocks of 64 KiB
)

// resizeFS is EXT4_IOC_RESIZE_FS, _IOW('f', 16, __u64).
const resizeFS = 0x40086610

// grow makes the file system that is mounted at dir as large as its disk: a sandbox may have been given a larger one than its template. It costs two
// reads if there is nothing to do.
func grow(device, dir string) error {
	f, err := os.Open(device)
	if err != nil {
		return fmt.Errorf("grow the file system: %w", err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("grow the file system: ask for the disk's size: %w", err)
	}
	super := make([]byte, superblockLen)
	if _, err := f.ReadAt(super, superblockAt); err != nil {
		return fmt.Errorf("grow the file system: %w", err)
	}
	have, want, err := blocks(super, size)
	if err != nil || want <= have {
		return err
	}
	return resize(dir, want)
}

// blocks are how many a file system has, and how many its disk has room for.
func blocks(super []byte, size int64) (have, want uint64, err error) {
	le := binary.LittleEndian
	shift := le.Uint32(super[blockSizeAt:])
	if le.Uint16(super[magicAt:]) != ext4Magic || shift > maxBlockShift {
		return 0, 0, fmt.Errorf("grow the file system: the disk has no ext4")
	}
	have = uint64(le.Uint32(super[countLowAt:]))
	if le.Uint32(super[featuresAt:])&has64bit != 0 {
		have |= uint64(le.Uint32(super[countHighAt:])) << 32
	}
	return have, uint64(size) >> (10 + shift), nil
}

// resize has the kernel do it, while the file system is in use.
func resize(dir string, blocks uint64) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("grow the file system: %w", err)
	}
	defer f.Close()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), resizeFS, uintptr(unsafe.Pointer(&blocks))); errno != 0 {
		return fmt.Errorf("grow the file system to %d blocks: %w", blocks, errno)
	}
	return nil
}
