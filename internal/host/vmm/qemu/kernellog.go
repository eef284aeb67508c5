package qemu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/space-platform/space/internal/host/sparse"
)

// A guest has no console: it would be a device in each snapshot, and slow under emulation. What its kernel logs is in its memory, in the ring that
// dmesg reads (kernel/printk/printk_ringbuffer.c, 5.10 and later): each text lies at a multiple of eight bytes behind a number that's one greater than
// that of the text before. The last letters of some texts come twice: the kernel takes a text's level out, and moves the rest.
const (
	kernelLogStart = "Linux version " // of its first text
	maxKernelLog   = 1 << 20          // of the ring that is looked at
	maxKernelText  = 1 << 10          // in one text: the kernel's LOG_LINE_MAX
	maxKernelSaid  = 4 << 10          // that is returned: the end
	searchBytes    = 1 << 20          // that are searched at once
	// The first number is that of the texts there's room for, at most so many, below 1<<32.
	firstNumber     = 1 << 32
	mostKernelTexts = 1 << 20
)

// kernelLog returns the end of what the kernel of a guest has logged, from its memory; "" if there's nothing that looks like it. All of it is
// what the guest wrote: bounded, and believed by nobody.
func kernelLog(memory *os.File, size int64) string {
	var said string
	err := search(memory, size, kernelLogStart, func(at int64) bool {
		said = readKernelLog(memory, at)
		return said == ""
	})
	if err != nil {
		return ""
	}
	return said
}

// search calls found with the offset of each occurrence of a text until it returns false.
func search(f *os.File, size int64, text string, found func(at int64) (more bool)) error {
	b := make([]byte, searchBytes+len(text)-1) // what lies across a border is in the first of two
	within := func(start, end int64) error {
		for ; start < end; start += searchBytes {
			n, err := f.ReadAt(b, start)
			if err != nil && err != io.EOF {
				return err
			}
			for from := 0; ; {
				i := bytes.Index(b[from:n], []byte(text))
				if i < 0 {
					break
				}
				if !found(start + int64(from+i)) {
					return errFound
				}
				from += i + 1
			}
		}
		return nil
	}
	if err := sparse.Data(f, size, within); !errors.Is(err, errFound) {
		return err
	}
	return nil
}

var errFound = errors.New("found")

// readKernelLog reads texts from where the first one is; "" if that isn't one.
func readKernelLog(memory *os.File, at int64) string {
	if at%8 != 0 || at < 8 {
		return ""
	}
	var first [8]byte
	if _, err := memory.ReadAt(first[:], at-8); err != nil {
		return ""
	}
	number := binary.LittleEndian.Uint64(first[:])
	if number >= firstNumber || number < firstNumber-mostKernelTexts {
		return ""
	}
	b := make([]byte, maxKernelLog)
	n, err := memory.ReadAt(b, at-8)
	if err != nil && err != io.EOF {
		return ""
	}
	b = b[:n]
	var lines []string
	for b != nil {
		var text []byte
		number++
		text, b = cutText(b[8:], number)
		lines = append(lines, strings.ToValidUTF8(string(bytes.Trim(text, "\x00\n")), "?"))
	}
	said := strings.Join(lines, "\n")
	return said[max(0, len(said)-maxKernelSaid):]
}

// cutText returns the text at the beginning of b, and what begins with the next one's number; nil if there is no next one.
func cutText(b []byte, next uint64) (text, rest []byte) {
	for i := 0; i+8 <= min(len(b), maxKernelText+8); i += 8 {
		if binary.LittleEndian.Uint64(b[i:]) == next {
			return b[:i], b[i:]
		}
	}
	text, _, _ = bytes.Cut(b[:min(len(b), maxKernelText)], []byte{0})
	return text, nil
}
