// Package account finds users and groups in the files of the machine's image, as a container runtime does. The image belongs to the guest's
// users, so the files are read with limits and may be missing or make no sense.
package account

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// maxAccounts bounds how much of /etc/passwd and /etc/group is read, in bytes.
const maxAccounts = 1 << 20

// maxGroups is the kernel's limit of supplementary groups that we use of it.
const maxGroups = 1024

// defaultUser runs sessions that name none, where the image has it; else root does.
const defaultUser = "user"

// Account is who something is done as.
type Account struct {
	Name   string
	UID    uint32
	GID    uint32
	Groups []uint32 // the first is GID
	Home   string   // never empty; it needn't exist
	Shell  string   // never empty
}

// Files are the files that name users and groups, in the directory Etc.
type Files struct{ Etc string }

// System are this machine's.
var System = Files{"/etc"}

// Find looks a user up by name or number. The empty name is the default user. Numbers and root exist without any file; a number that no
// entry has gets the group of the same number, so that it has no rights of root's group, and the home /. USER:GROUP is the user in that group,
// and in no other, as container runtimes have it.
func (a Files) Find(who string) (Account, error) {
	name, group, given := strings.Cut(who, ":")
	u, err := a.user(name)
	if err != nil || !given {
		return u, err
	}
	if u.GID, err = a.GroupID(group); err != nil {
		return Account{}, err
	}
	u.Groups = []uint32{u.GID}
	return u, nil
}

func (a Files) user(who string) (Account, error) {
	if who == "" {
		if u, ok := a.entry(func(u Account) bool { return u.Name == defaultUser }); ok {
			return a.withGroups(u)
		}
		who = "root"
	}
	if id, err := strconv.ParseUint(who, 10, 32); err == nil && id < 1<<32-1 { // the last one means "no user" to the kernel
		if u, ok := a.entry(func(u Account) bool { return u.UID == uint32(id) }); ok {
			return a.withGroups(u)
		}
		return Account{Name: who, UID: uint32(id), GID: uint32(id), Groups: []uint32{uint32(id)}, Home: "/", Shell: "/bin/sh"}, nil
	}
	if u, ok := a.entry(func(u Account) bool { return u.Name == who }); ok {
		return a.withGroups(u)
	}
	if who == "root" {
		return Account{Name: "root", Home: "/root", Shell: "/bin/sh"}, nil
	}
	return Account{}, fmt.Errorf("user %q: not in /etc/passwd", clip(who))
}

// entry returns the first entry of the passwd file that matches.
func (a Files) entry(match func(Account) bool) (u Account, found bool) {
	eachLine(path.Join(a.Etc, "passwd"), 7, func(f []string) bool {
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		if err1 != nil || err2 != nil || f[0] == "" {
			return true
		}
		u = Account{Name: f[0], UID: uint32(uid), GID: uint32(gid), Home: f[5], Shell: f[6]}
		found = match(u)
		return !found
	})
	if u.Home == "" {
		u.Home = "/"
	}
	if u.Shell == "" {
		u.Shell = "/bin/sh"
	}
	return u, found
}

// withGroups adds the groups whose member list names the user.
func (a Files) withGroups(u Account) (Account, error) {
	u.Groups = []uint32{u.GID}
	eachLine(path.Join(a.Etc, "group"), 4, func(f []string) bool {
		gid, err := strconv.ParseUint(f[2], 10, 32)
		if err == nil && uint32(gid) != u.GID && slices.Contains(strings.Split(f[3], ","), u.Name) {
			u.Groups = append(u.Groups, uint32(gid))
		}
		return len(u.Groups) < maxGroups
	})
	return u, nil
}

// eachLine calls f with the fields of each line that has enough of them, until f returns false. A file that is missing or isn't
// regular has no lines.
func eachLine(file string, fields int, f func([]string) bool) {
	r, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer r.Close()
	if info, err := r.Stat(); err != nil || !info.Mode().IsRegular() {
		return
	}
	lines := bufio.NewScanner(io.LimitReader(r, maxAccounts))
	for lines.Scan() {
		if cut := strings.Split(lines.Text(), ":"); len(cut) >= fields && !f(cut) {
			return
		}
	}
}

// clipBytes bounds how much of a caller's text an error repeats.
const clipBytes = 64

func clip(s string) string {
	if len(s) <= clipBytes {
		return s
	}
	return strings.ToValidUTF8(s[:clipBytes], "") + "…"
}
