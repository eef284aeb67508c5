package account

import (
	"fmt"
	"path"
	"strconv"
)

// Limits of the names of each kind that are kept.
const (
	maxNames = 10_000
	maxName  = 256 // bytes
)

// Names are the names of numbers, as they were when they were read.
type Names struct {
	Users  map[uint32]string
	Groups map[uint32]string
}

// Names reads all names. Of several names of one number the first one counts.
func (a Files) Names() Names {
	return Names{Users: names(path.Join(a.Etc, "passwd"), 7), Groups: names(path.Join(a.Etc, "group"), 4)}
}

// names reads a file whose lines have a name first and its number third.
func names(file string, fields int) map[uint32]string {
	out := map[uint32]string{}
	eachLine(file, fields, func(f []string) bool {
		id, err := strconv.ParseUint(f[2], 10, 32)
		if _, known := out[uint32(id)]; err == nil && !known && len(f[0]) <= maxName {
			out[uint32(id)] = f[0]
		}
		return len(out) < maxNames
	})
	return out
}

// UserID finds the number of a user, who needs no entry if it's given as one.
func (a Files) UserID(who string) (uint32, error) { return a.id("passwd", 7, who) }

// GroupID finds the number of a group, which needs no entry if it's given as one.
func (a Files) GroupID(which string) (uint32, error) { return a.id("group", 4, which) }

func (a Files) id(file string, fields int, name string) (uint32, error) {
	found, ok := uint64(0), name == "root"
	eachLine(path.Join(a.Etc, file), fields, func(f []string) bool {
		id, err := strconv.ParseUint(f[2], 10, 32)
		if err == nil && f[0] == name && name != "" {
			found, ok = id, true
			return false
		}
		return true
	})
	if id, err := strconv.ParseUint(name, 10, 32); !ok && err == nil {
		found, ok = id, true
	}
	if !ok || found == 1<<32-1 { // the last one means "leave it" to the kernel
		return 0, fmt.Errorf("%q: not in /etc/%s", clip(name), file)
	}
	return uint32(found), nil
}
