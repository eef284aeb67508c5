package pager

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm/pages"
	"github.com/space-platform/space/internal/peer"
)

const (
	// handshakeLimit is how long a VMM may take from the pager's start until it has said all: it's being started at the same time.
	handshakeLimit = time.Minute
	// maxHandshake bounds what it says. A region takes some 120 bytes.
	maxHandshake = 16 << 10
	// maxRegions bounds the parts of a memory. Firecracker has two at most, on both sides of the hole for devices.
	maxRegions = 16
	// maxMemory bounds a machine's memory. Tables have a bit or two for each of its pages.
	maxMemory = 1 << 40
)

// region is how Firecracker describes a part of a guest's memory.
type region struct {
	Address  uint64 `json:"base_host_virt_addr"`
	Bytes    uint64 `json:"size"`
	Offset   uint64 `json:"offset"`    // in the memory file
	PageSize uint64 `json:"page_size"` // in bytes
}

// handshake takes what a VMM of a uid says on its connection: where its memory of so many bytes is, and the userfaultfd.
func handshake(c *net.UnixConn, uid int, memory int64) (_ uffd, _ []pages.Region, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the machine's monitor says where its memory is: %w", err)
		}
	}()
	cred, err := peer.Credentials(c)
	if err != nil {
		return uffd{}, nil, err
	}
	if int(cred.Uid) != uid {
		return uffd{}, nil, fmt.Errorf("uid %d connected, want %d", cred.Uid, uid)
	}
	text, f, err := receive(c)
	if err != nil {
		return uffd{}, nil, err
	}
	regions, err := parseRegions(text, memory)
	if err != nil {
		f.Close()
		return uffd{}, nil, err
	}
	return uffd{f}, regions, nil
}

// receive reads a whole message and takes the one descriptor that comes with it.
func receive(c *net.UnixConn) (text []byte, _ *os.File, err error) {
	var fds []int
	defer func() {
		for _, fd := range fds { // those that nobody took
			unix.Close(fd)
		}
	}()
	buf, oob := make([]byte, maxHandshake), make([]byte, unix.CmsgSpace(4*maxRegions))
	for n := 0; ; {
		got, control, flags, _, err := c.ReadMsgUnix(buf[n:], oob)
		if got == 0 && err == nil {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, nil, err
		}
		more, err := descriptors(oob[:control])
		fds = append(fds, more...)
		if flags&unix.MSG_CTRUNC != 0 {
			err = errors.New("it has too many descriptors")
		}
		if err != nil {
			return nil, nil, err
		}
		n += got
		if json.Valid(buf[:n]) {
			text = buf[:n]
			break
		}
		if n == len(buf) {
			return nil, nil, fmt.Errorf("it's no JSON text of less than %d bytes", maxHandshake)
		}
	}
	if len(fds) != 1 {
		return nil, nil, fmt.Errorf("it has %d descriptors, want 1", len(fds))
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "userfaultfd")
	fds = nil
	return text, f, nil
}

func descriptors(control []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		more, rerr := unix.ParseUnixRights(&messages[i])
		err = cmp.Or(err, rerr)
		fds = append(fds, more...)
	}
	return fds, err
}

// parseRegions reads what a VMM says of a memory of so many bytes. The regions that it returns are sorted by their offsets and are all of it, once.
func parseRegions(text []byte, memory int64) ([]pages.Region, error) {
	var said []region
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, err
	}
	if len(said) == 0 || len(said) > maxRegions {
		return nil, fmt.Errorf("it has %d regions, want 1 to %d", len(said), maxRegions)
	}
	out := make([]pages.Region, 0, len(said))
	for _, r := range said {
		if err := r.check(); err != nil {
			return nil, err
		}
		out = append(out, pages.Region{Address: r.Address, Offset: int64(r.Offset), Bytes: int64(r.Bytes)})
	}
	return out, pages.CheckRegions(out, memory)
}

func (r region) check() error {
	switch {
	case r.PageSize != pageBytes:
		return fmt.Errorf("a region has pages of %d bytes, want %d", r.PageSize, pageBytes)
	case r.Bytes > maxMemory || r.Offset > maxMemory:
		return fmt.Errorf("a region of %d bytes at offset %d: a memory has %d at most", r.Bytes, r.Offset, int64(maxMemory))
	}
	return nil
}

// find returns the region that an address is in.
func find(regions []pages.Region, address uint64) (pages.Region, bool) {
	i := slices.IndexFunc(regions, func(r pages.Region) bool { return address-r.Address < uint64(r.Bytes) })
	if i < 0 {
		return pages.Region{}, false
	}
	return regions[i], true
}

// at returns the region that an offset is in.
func at(regions []pages.Region, offset int64) (pages.Region, bool) {
	i := slices.IndexFunc(regions, func(r pages.Region) bool { return offset >= r.Offset && offset-r.Offset < r.Bytes })
	if i < 0 {
		return pages.Region{}, false
	}
	return regions[i], true
}
