package kernel

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pierrec/lz4/v4"
)

// maxVmlinux bounds what a compressed kernel may grow to; Debian's cloud kernel is 53 MB.
const maxVmlinux = 256 << 20

// The fields of a bzImage's setup header that say where the compressed kernel lies (Documentation/x86/boot.rst), by offset.
const (
	setupSectsAt    = 0x1f1
	magicAt         = 0x202
	protocolAt      = 0x206
	payloadOffsetAt = 0x248
	payloadLengthAt = 0x24c
	setupHeaderEnd  = 0x250

	sector           = 512
	payloadProtocol  = 0x0208 // the first that names the payload
	defaultSetupSize = 4
	sizeTrailer      = 4 // the payload ends with the uncompressed size
)

// Vmlinux returns the kernel inside a bzImage, an ELF file. A machine boots it by its PVH entry without running the decompressor, which
// takes 300 ms under emulation. Kernels compressed with LZ4 or gzip are understood.
func Vmlinux(bzImage []byte) ([]byte, error) {
	payload, size, err := findPayload(bzImage)
	if err != nil {
		return nil, fmt.Errorf("read the bzImage: %w", err)
	}
	out, err := decompress(payload, size)
	if err != nil {
		return nil, fmt.Errorf("decompress the kernel: %w", err)
	}
	if err := checkPVH(out); err != nil {
		return nil, fmt.Errorf("check the kernel: %w", err)
	}
	return out, nil
}

// findPayload returns the compressed kernel and the size that it has uncompressed.
func findPayload(b []byte) (payload []byte, size int, err error) {
	if len(b) < setupHeaderEnd || string(b[magicAt:magicAt+4]) != "HdrS" {
		return nil, 0, errors.New("it has no setup header")
	}
	if p := binary.LittleEndian.Uint16(b[protocolAt:]); p < payloadProtocol {
		return nil, 0, fmt.Errorf("its boot protocol %#x doesn't say where the kernel is", p)
	}
	sects := int64(b[setupSectsAt])
	if sects == 0 {
		sects = defaultSetupSize
	}
	start := (sects+1)*sector + int64(binary.LittleEndian.Uint32(b[payloadOffsetAt:]))
	end := start + int64(binary.LittleEndian.Uint32(b[payloadLengthAt:]))
	if end > int64(len(b)) || end-start < sizeTrailer {
		return nil, 0, fmt.Errorf("its kernel lies at %d to %d, beyond its %d bytes", start, end, len(b))
	}
	end -= sizeTrailer
	n := binary.LittleEndian.Uint32(b[end:])
	if n > maxVmlinux {
		return nil, 0, fmt.Errorf("its kernel has %d bytes, more than the %d allowed", n, maxVmlinux)
	}
	return b[start:end], int(n), nil
}

func decompress(payload []byte, size int) ([]byte, error) {
	var r io.Reader
	switch {
	case bytes.HasPrefix(payload, []byte{0x02, 0x21, 0x4c, 0x18}):
		r = lz4.NewReader(bytes.NewReader(payload))
	case bytes.HasPrefix(payload, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(bytes.NewReader(payload))
		if err != nil {
			return nil, err
		}
		r = z
	default:
		return nil, fmt.Errorf("it's compressed with %s: only LZ4 and gzip are understood", compression(payload))
	}
	out := make([]byte, size)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, err
	}
	return out, nil
}

// compression names a format by its first bytes.
func compression(b []byte) string {
	for magic, name := range map[string]string{"\x28\xb5\x2f\xfd": "zstd", "\xfd7zXZ\x00": "xz", "BZh": "bzip2", "\x5d\x00\x00": "LZMA", "\x89LZO": "LZO"} {
		if bytes.HasPrefix(b, []byte(magic)) {
			return name
		}
	}
	return "an unknown format"
}

// physEntryNote is the type of the ELF note, owned by "Xen", that gives the PVH entry.
const physEntryNote = 18

// checkPVH refuses a kernel that a machine couldn't start directly.
func checkPVH(vmlinux []byte) error {
	f, err := elf.NewFile(bytes.NewReader(vmlinux))
	if err != nil {
		return err
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > maxNotes {
			continue
		}
		notes := make([]byte, p.Filesz)
		if _, err := p.ReadAt(notes, 0); err != nil {
			return fmt.Errorf("read its notes: %w", err)
		}
		if hasNote(notes, "Xen\x00", physEntryNote) {
			return nil
		}
	}
	return errors.New("it has no PVH entry (CONFIG_PVH)")
}

// maxNotes bounds an ELF note segment that is read; a kernel's has some hundred bytes.
const maxNotes = 1 << 20

func hasNote(b []byte, owner string, kind uint32) bool {
	const header, align = 12, 4
	for len(b) >= header {
		name := int64(binary.LittleEndian.Uint32(b))
		desc := int64(binary.LittleEndian.Uint32(b[4:]))
		padded := header + (name+align-1)/align*align + (desc+align-1)/align*align
		if padded > int64(len(b)) {
			return false
		}
		if string(b[header:header+name]) == owner && binary.LittleEndian.Uint32(b[8:]) == kind {
			return true
		}
		b = b[padded:]
	}
	return false
}
