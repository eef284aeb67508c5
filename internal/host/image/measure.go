package image

import (
	"golang.org/x/sys/unix"
)

// Size is what a tree takes on a disk.
type Size struct {
	Bytes  int64 // of content, in whole blocks of 4 KiB, with the directories' own
	Inodes int64
}

// block is the unit of the disk's file system, in bytes.
const block = 4096

// Measure finishes the tree and returns what it takes. A file with several names counts once.
func (t *Tree) Measure() (Size, error) {
	if err := t.finish(); err != nil {
		return Size{}, err
	}
	var s Size
	linked := map[uint64]bool{}
	err := t.each(func(d dir) error {
		names, err := d.names()
		if err != nil {
			return err
		}
		s.Inodes++
		length := int64(0) // of the directory
		for _, name := range names {
			length += entryBytes(name)
			st, err := d.stat(name)
			if err != nil {
				return err
			}
			if st.Mode&unix.S_IFMT == unix.S_IFDIR || linked[st.Ino] {
				continue
			}
			if st.Nlink > 1 {
				linked[st.Ino] = true
			}
			s.Inodes++
			s.Bytes += blocks(st.Size)
		}
		s.Bytes += max(block, blocks(length))
		return nil
	})
	return s, err
}

// entryBytes is what a name takes in a directory.
func entryBytes(name string) int64 { return int64(8 + (len(name)+3)/4*4) }

func blocks(n int64) int64 { return (n + block - 1) / block * block }

// each calls f with all directories of the tree, those inside first.
func (t *Tree) each(f func(dir) error) error {
	root, err := openDir(int(t.root.Fd()), ".")
	if err != nil {
		return err
	}
	defer unix.Close(root.fd)
	return eachBelow(root, f)
}

func eachBelow(d dir, f func(dir) error) error {
	names, err := d.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		sub, err := openDir(d.fd, name)
		if err == unix.ENOTDIR || err == unix.ELOOP {
			continue
		}
		if err == nil {
			err = eachBelow(sub, f)
			unix.Close(sub.fd)
		}
		if err != nil {
			return err
		}
	}
	return f(d)
}
