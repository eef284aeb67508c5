package kernel

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/pierrec/lz4/v4"
)

// elfWithNote is a minimal ELF file whose only segment is a note.
func elfWithNote(owner string, kind uint32) []byte {
	note := binary.LittleEndian.AppendUint32(nil, uint32(len(owner)+1))
	note = binary.LittleEndian.AppendUint32(note, 4)
	note = binary.LittleEndian.AppendUint32(note, kind)
	note = append(note, owner...)
	note = append(note, make([]byte, 4-len(owner)%4)...)
	note = append(note, 1, 2, 3, 4)
	const header, program = 64, 56
	b := make([]byte, header+program)
	copy(b, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(b[16:], 2)       // executable
	le.PutUint16(b[18:], 62)      // x86-64
	le.PutUint32(b[20:], 1)       // version
	le.PutUint64(b[32:], header)  // program headers
	le.PutUint16(b[52:], header)  // size of this header
	le.PutUint16(b[54:], program) // size of a program header
	le.PutUint16(b[56:], 1)       // how many
	le.PutUint16(b[58:], 64)      // size of a section header, of which there are none
	p := b[header:]
	le.PutUint32(p, 4) // PT_NOTE
	le.PutUint64(p[8:], header+program)
	le.PutUint64(p[32:], uint64(len(note)))
	le.PutUint64(p[40:], uint64(len(note)))
	return append(b, note...)
}

// wrap makes a bzImage around a compressed kernel.
func wrap(payload []byte, size int) []byte {
	const sects, offset = 3, 100
	b := make([]byte, (sects+1)*sector+offset)
	b[setupSectsAt] = sects
	copy(b[magicAt:], "HdrS")
	binary.LittleEndian.PutUint16(b[protocolAt:], 0x020f)
	binary.LittleEndian.PutUint32(b[payloadOffsetAt:], offset)
	binary.LittleEndian.PutUint32(b[payloadLengthAt:], uint32(len(payload)+sizeTrailer))
	b = append(b, payload...)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	return append(b, "what follows the kernel"...)
}

func lz4Legacy(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(lz4.LegacyOption(true)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestVmlinuxComesOutAsItWentIn(t *testing.T) {
	want := append(elfWithNote("Xen", physEntryNote), bytes.Repeat([]byte("kernel text "), 3<<18)...) // 9 MiB: more than one block of LZ4
	for name, payload := range map[string][]byte{"lz4": lz4Legacy(t, want), "gzip": gzipped(t, want)} {
		got, err := Vmlinux(wrap(payload, len(want)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got %d bytes, want the %d that went in", name, len(got), len(want))
		}
	}
}

func TestWhatIsNoKernelIsRefused(t *testing.T) {
	elf := elfWithNote("Xen", physEntryNote)
	good := wrap(gzipped(t, elf), len(elf))
	old := bytes.Clone(good)
	binary.LittleEndian.PutUint16(old[protocolAt:], 0x0207)
	for name, c := range map[string]struct {
		image []byte
		want  string
	}{
		"nothing":       {nil, "no setup header"},
		"text":          {bytes.Repeat([]byte("x"), 4096), "no setup header"},
		"old protocol":  {old, "doesn't say where"},
		"cut":           {good[:len(good)-len("what follows the kernel")-1], "beyond its"},
		"zstd":          {wrap([]byte("\x28\xb5\x2f\xfd...."), 10), "compressed with zstd"},
		"xz":            {wrap([]byte("\xfd7zXZ\x00...."), 10), "compressed with xz"},
		"unknown":       {wrap([]byte("????????"), 10), "unknown format"},
		"huge":          {wrap(gzipped(t, elf), maxVmlinux+1), "more than the"},
		"shorter":       {wrap(gzipped(t, elf), len(elf)+1), "unexpected EOF"},
		"no ELF":        {wrap(gzipped(t, make([]byte, 100)), 100), "bad magic number"},
		"no PVH entry":  {wrap(gzipped(t, elfWithNote("Xen", 17)), len(elf)), "no PVH entry"},
		"another owner": {wrap(gzipped(t, elfWithNote("GNU", physEntryNote)), len(elf)), "no PVH entry"},
	} {
		if _, err := Vmlinux(c.image); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzFindPayload(f *testing.F) {
	f.Add(wrap([]byte("payload"), 7))
	f.Fuzz(func(t *testing.T, b []byte) {
		payload, size, err := findPayload(b)
		if err == nil && (len(payload) > len(b) || size > maxVmlinux) {
			t.Errorf("%d bytes of payload, %d uncompressed, in %d", len(payload), size, len(b))
		}
	})
}

func FuzzHasNote(f *testing.F) {
	f.Add([]byte("\x04\x00\x00\x00\x04\x00\x00\x00\x12\x00\x00\x00Xen\x00\x01\x02\x03\x04"))
	f.Fuzz(func(t *testing.T, b []byte) { hasNote(b, "Xen\x00", physEntryNote) })
}
