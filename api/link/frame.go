package link

import (
	"encoding/binary"
	"hash/crc32"
)

// Limits of the wire, in bytes.
const (
	MaxFrame   = 32 << 10             // header and payload; a virtio-serial port takes this much in one write
	MaxPayload = MaxFrame - headerLen // of one frame
	MaxMessage = 1 << 20              // one message of a stream
	Window     = 256 << 10            // credit of each direction of a stream
)

// MaxStreams is how many streams a link has at the same time. Open fails beyond it, a guest resets what exceeds it.
const MaxStreams = 256

const (
	magic0    = 0xA5
	magic1    = 0x5C
	headerLen = 28
)

// kind says what a frame is. The zero kind is invalid.
type kind byte

const (
	kindSync   kind = iota + 1 // host → guest
	kindAck                    // guest → host
	kindRefuse                 // guest → host
	kindClock                  // host → guest
	kindOpen                   // host → guest
	kindData
	kindClose
	kindReset
	kindWindow
)

// flagMore marks a piece of a message that isn't its last.
const flagMore = 1

// frame is a decoded frame. The payload aliases the reader's buffer until the next read.
type frame struct {
	kind    kind
	flags   byte
	stream  uint32
	link    uint64
	payload []byte
}

// more reports whether the message goes on.
func (f frame) more() bool { return f.flags&flagMore != 0 }

// cost is what a frame takes from its stream's credit.
func cost(payload int) int { return payload + headerLen }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends f's encoding to b. The payload must not be longer than MaxPayload.
func appendFrame(b []byte, f frame) []byte {
	at := len(b)
	b = append(b, magic0, magic1, byte(f.kind), f.flags)
	b = binary.LittleEndian.AppendUint32(b, f.stream)
	b = binary.LittleEndian.AppendUint64(b, f.link)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(f.payload, castagnoli))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
	return append(b, f.payload...)
}

// header is a decoded header.
type header struct {
	frame
	length int
	sum    uint32 // of the payload
}

// parseHeader decodes the header at the start of b, which holds at least headerLen bytes. ok is false for anything that no sender
// writes: a wrong magic, checksum or length.
func parseHeader(b []byte) (h header, ok bool) {
	b = b[:headerLen]
	if b[0] != magic0 || b[1] != magic1 {
		return h, false
	}
	if crc32.Checksum(b[:24], castagnoli) != binary.LittleEndian.Uint32(b[24:]) {
		return h, false
	}
	length := binary.LittleEndian.Uint32(b[16:])
	if length > MaxPayload {
		return h, false
	}
	h.kind, h.flags = kind(b[2]), b[3]
	h.stream = binary.LittleEndian.Uint32(b[4:])
	h.link = binary.LittleEndian.Uint64(b[8:])
	h.length = int(length)
	h.sum = binary.LittleEndian.Uint32(b[20:])
	return h, true
}
