package image

import (
	"encoding/binary"
	"hash/maphash"
	"strings"

	"golang.org/x/sys/unix"
)

// The names by which a layer removes what earlier ones brought.
const (
	whiteoutPrefix = ".wh."
	metaPrefix     = ".wh..wh." // a union file system's own, of which one is known
	opaqueName     = ".wh..wh..opq"
)

// whiteout is what a name of an entry in a layer means.
type whiteout int

const (
	plain   whiteout = iota // an entry like any other
	removes                 // the name that is returned
	opaque                  // its directory has nothing from before
	ignored                 // nothing here
	invalid                 // it removes no possible name
)

// classify tells what an entry's last part means, and which name it removes.
func classify(name string) (whiteout, string) {
	switch {
	case name == opaqueName:
		return opaque, ""
	case strings.HasPrefix(name, metaPrefix):
		return ignored, ""
	case !strings.HasPrefix(name, whiteoutPrefix):
		return plain, ""
	}
	target := strings.TrimPrefix(name, whiteoutPrefix)
	if target == "" || target == "." || target == ".." {
		return invalid, ""
	}
	return removes, target
}

// seen are the names that a layer itself has brought, which its whiteouts leave alone whatever their order. Hashes stand for them,
// so that memory is bounded; two that are alike keep a name alive that should have gone, which nobody can bring about.
type seen struct {
	seed  maphash.Seed
	names map[uint64]struct{}
}

func newSeen() seen { return seen{seed: maphash.MakeSeed(), names: map[uint64]struct{}{}} }

func (s seen) key(dir uint64, name string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], dir)
	h.Write(b[:])
	h.WriteString(name)
	return h.Sum64()
}

func (s seen) add(dir uint64, name string) { s.names[s.key(dir, name)] = struct{}{} }

func (s seen) has(dir uint64, name string) bool {
	_, ok := s.names[s.key(dir, name)]
	return ok
}

// white removes one name from before the layer. A directory of this layer with the name loses only what it had before.
func (l *layer) white(d dir, name string) error {
	if !l.brought.has(d.ino, name) {
		return d.remove(name)
	}
	sub, err := openDir(d.fd, name)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
		return nil // this layer's own
	}
	if err != nil {
		return err
	}
	defer unix.Close(sub.fd)
	return l.clear(sub)
}

// clear removes from a directory what it had before the layer.
func (l *layer) clear(d dir) error {
	names, err := d.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := l.white(d, name); err != nil {
			return err
		}
	}
	return nil
}
