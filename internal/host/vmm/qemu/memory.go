package qemu

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile is the file behind a machine's memory. The inode finds its mapping even when the file was renamed or removed since.
type memoryFile struct {
	Path  string `json:"path"`
	Inode uint64 `json:"inode"`
	Bytes int64  `json:"bytes"`
}

// inspect looks at a memory file. One of another size than the machine's memory would be stretched by QEMU, or cut.
func inspect(path string, bytes int64) (memoryFile, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return memoryFile{}, fmt.Errorf("look at memory file %s: %w", path, err)
	}
	if page := int64(os.Getpagesize()); bytes <= 0 || bytes%page != 0 {
		return memoryFile{}, fmt.Errorf("memory of %d bytes: want a multiple of %d", bytes, page)
	}
	if st.Size != bytes {
		return memoryFile{}, fmt.Errorf("memory file %s has %d bytes, the machine %d", path, st.Size, bytes)
	}
	return memoryFile{Path: path, Inode: st.Ino, Bytes: bytes}, nil
}
