package machine

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/api/link"
)

// Covers are files in memory that are mounted over those of the kernel and the image which name a machine: a clone has names of its own, and nothing is
// written to its disk for that. What isn't covered is nil.
type Covers struct {
	BootID    *os.File   // /proc/sys/kernel/random/boot_id
	MachineID []*os.File // /etc/machine-id, and where else the image has one
	Hosts     *os.File   // /etc/hosts
}

// maxHosts is how long a hosts file may be, in bytes, to be read and changed.
const maxHosts = 1 << 20

// identify takes the names of an execution. All but the boot's belong to the sandbox and stay what they are in all its executions, as they do over
// a restart of any machine: programs name files, sockets and locks after them.
func (m *Machine) identify(s link.Sync) error {
	if s.Adopt && (s.Execution != m.execution || s.Epoch != m.epoch) {
		if err := m.covers.newBoot(); err != nil {
			return err
		}
		m.execution, m.epoch = s.Execution, s.Epoch
	}
	if s.Hostname == "" || s.Hostname == m.hostname {
		return nil
	}
	if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := m.covers.rename(s.Hostname); err != nil {
		return err
	}
	m.hostname = s.Hostname
	return nil
}

// newBoot draws a boot's id. The kernel's own can't be changed, and all clones have the same.
func (c Covers) newBoot() error {
	if c.BootID == nil {
		return nil
	}
	var id [16]byte
	if _, err := unix.Getrandom(id[:], 0); err != nil {
		return fmt.Errorf("draw a boot id: %w", err)
	}
	if _, err := c.BootID.WriteAt(bootID(id), 0); err != nil {
		return fmt.Errorf("write the boot id: %w", err)
	}
	return nil
}

// bootID is a random UUID and a line's end, as the kernel writes one.
func bootID(b [16]byte) []byte {
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	line := make([]byte, 0, 37)
	for i, group := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			line = append(line, '-')
		}
		line = hex.AppendEncode(line, group)
	}
	return append(line, '\n')
}

// rename writes what follows from a host name.
func (c Covers) rename(name string) error {
	id := machineID(name)
	for _, f := range c.MachineID {
		_, err := f.WriteAt(id, 0)
		if err := errors.Join(err, f.Truncate(int64(len(id)))); err != nil {
			return fmt.Errorf("write the machine id: %w", err)
		}
	}
	if c.Hosts == nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(c.Hosts.Fd()), &st); err != nil {
		return fmt.Errorf("read the hosts file: %w", err)
	}
	if st.Size > maxHosts {
		return nil // whoever wrote that knows what it's for
	}
	old := make([]byte, st.Size)
	if _, err := c.Hosts.ReadAt(old, 0); err != nil {
		return fmt.Errorf("read the hosts file: %w", err)
	}
	text := hosts(old, name)
	if _, err := c.Hosts.WriteAt(text, 0); err != nil {
		return fmt.Errorf("write the hosts file: %w", err)
	}
	return c.Hosts.Truncate(int64(len(text)))
}

// machineID is 32 hexadecimal digits and a line's end, as machine-id(5) has it. A name is as unique as a sandbox, and so is what is made of it.
func machineID(name string) []byte {
	h := fnv.New128a()
	h.Write([]byte(name))
	return append(hex.AppendEncode(nil, h.Sum(nil)), '\n')
}

// ownAddress is what a machine's own name leads to, as Debian has it.
const ownAddress = "127.0.1.1"

// hosts is a hosts file in which the machine has its new name. Other lines stay.
func hosts(old []byte, name string) []byte {
	own := []byte(ownAddress + "\t" + name + "\n")
	text := make([]byte, 0, len(old)+len(own))
	for line := range bytes.Lines(old) {
		if f := bytes.Fields(line); len(f) > 0 && string(f[0]) == ownAddress {
			continue
		}
		text = append(text, line...)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return append(text, own...)
}
