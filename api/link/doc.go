// Package link is the protocol between a host daemon and the agent in a guest, over any byte stream: a virtio-serial port, a vsock
// connection, a unix socket. It carries calls, opened by the host, each a stream of messages in both directions.
//
// # Why it has a protocol of its own
//
// A byte stream into a virtual machine has no life cycle that can be trusted. A snapshot is taken with a link open, and any number of
// clones wake up in the middle of it. A daemon dies and its successor finds the stream in mid-frame, on both sides. No event tells either end. So a
// link starts with a handshake that may happen at any moment, and every frame carries the number of the link it belongs to.
//
// # Frames
//
// All integers are little endian. A frame is a header of 28 bytes and a payload of at most MaxPayload bytes:
//
//	 0  2  magic      A5 5C
//	 2  1  kind
//	 3  1  flags      bit 0: the message goes on in the next frame of this stream (OPEN, DATA)
//	 4  4  stream     0 for frames of the link itself
//	 8  8  link       the link's number
//	16  4  length     of the payload
//	20  4  payload checksum, CRC-32C
//	24  4  header checksum, CRC-32C of bytes 0 to 23
//
// The header has a checksum of its own so that a length is never believed unchecked: a reader that meets a broken header moves on by
// one byte and hunts for the next magic, one that meets a good header with a broken payload skips exactly that frame, and never looks
// for frames inside it. Bytes are never altered on the way; but a daemon may die after writing half a frame. Its successor
// therefore sends MaxFrame zero bytes (the filler) before a SYNC: whatever was cut is completed, fails its checksum and is skipped.
//
// # The handshake
//
//	host                                   guest
//	SYNC(link 7, identity, clock, seed) ─►
//	                                       set clock, re-seed, take identity
//	                                  ◄─  ACK(link 7, epoch)
//	CLOCK(now) ─►                          set clock again, warm now
//	OPEN(stream 1) …
//
// The host repeats SYNC with the same number until it's answered: 20 ms after the first, then more slowly, under a deadline. The guest
// does the work once per number and answers every repetition. SYNC has a fixed layout and is decoded by hand: after a restore the guest's code is cold, and
// the time to ACK is the time to create a sandbox.
//
// A SYNC with a greater number, seen at any moment, ends the link before it: its streams fail with ErrReplaced, its unsent frames are
// dropped. Frames of any other number than the current one are dropped by both sides. The number is the host's wall clock in
// nanoseconds, so it grows across daemons without being stored, and bytes that a process in the guest printed before can't
// pretend to belong to it. A guest refuses a number that isn't greater than the last one and says which that was; the host then goes on from there.
//
// Identity is an execution id and its epoch. A guest changes it only for a SYNC with the adopt flag, which a host sets after a boot, a
// load or a fork, and never when it re-attaches; otherwise both must be what the guest has. With adopt the same execution never goes back to
// an older epoch. A refused SYNC is answered by REFUSE and changes nothing.
//
//	SYNC payload:   0 2 version · 2 2 flags, bit 0 adopt · 4 8 epoch · 12 8 wall clock, ns since 1970 · 20 64 seed
//	                84 1 length, 85 47 execution id · 132 1 length, 133 63 host name · 196 end
//	ACK payload:    0 2 version · 2 8 epoch · 10 end
//	REFUSE payload: 0 2 reason · 2 8 the guest's epoch · 10 8 the guest's link · 18 end
//	CLOCK payload:  0 8 wall clock, ns since 1970
//
// # Streams
//
// The host opens streams, with numbers that count up from 1. OPEN carries the first message, or its beginning; DATA the following ones. A message longer
// than a frame is cut, all pieces but the last with the flag and of MaxPayload bytes; at most MaxMessage bytes in all. CLOSE ends one direction, RESET (payload: a 4
// byte code) both at once. RESET of stream 0 ends the link.
//
// Each direction of each stream has a credit of Window bytes. A frame costs its payload and its header, so that empty frames aren't
// free. The receiver gives credit back with WINDOW (payload: 4 bytes, the amount) as its program takes the messages. So a reader never blocks, memory is
// bounded by the number of streams, and a flood on one stream holds up no other.
//
// # What the host believes
//
// Nothing. A frame that an honest guest can't have sent ends the link with a *ProtocolError: a stream that was never opened, credit
// overrun or given back twice, an unasked answer, more garbage than a cut frame explains. Frames for streams that have just ended are dropped within
// a budget. Every frame of a guest is thus paid for by something the host did. A guest that doesn't take what is sent to it ends the
// link with ErrStalled, one that doesn't answer SYNC with ErrNoAnswer. A guest that holds back an answer on a stream costs nothing but
// the caller's own deadline.
package link
