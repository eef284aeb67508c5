package ring

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Stream says where a byte of output came from.
type Stream byte

// The streams of a session.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// MaxData is the size of the largest record and of the largest piece that a reader is handed, in bytes.
const MaxData = 32 << 10

// headerBytes is the size of a record's header: checksum, length, stream.
const headerBytes = 4 + 4 + 1

// errTorn means that what follows isn't a whole record: the process died while it wrote it.
var errTorn = errors.New("torn record")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRecord adds one record to b. data is at most MaxData bytes.
func appendRecord(b []byte, s Stream, data []byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	b = append(b, byte(s))
	b = append(b, data...)
	binary.LittleEndian.PutUint32(b[at:], crc32.Checksum(b[at+4:], castagnoli))
	return b
}

// parseRecord returns the first record of b and what follows it; the data is b's own.
func parseRecord(b []byte) (s Stream, data, rest []byte, err error) {
	if len(b) < headerBytes {
		return 0, nil, nil, errTorn
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n == 0 || n > MaxData || int(n) > len(b)-headerBytes {
		return 0, nil, nil, errTorn
	}
	whole := b[:headerBytes+int(n)]
	if crc32.Checksum(whole[4:], castagnoli) != binary.LittleEndian.Uint32(whole) {
		return 0, nil, nil, errTorn
	}
	s = Stream(whole[8])
	if s != Stdout && s != Stderr {
		return 0, nil, nil, errTorn
	}
	return s, whole[headerBytes:], b[len(whole):], nil
}
