package process

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

// account is who a session runs as.
type account struct {
	name   string
	uid    uint32
	gid    uint32
	groups []uint32
	home   string
	shell  string
}

// accounts are the files that name users; etc is /etc but in tests.
type accounts struct{ etc string }

// find looks a user up by name or number. The empty name is the default user. Numbers and root exist without any file; a number that no
// entry has gets group 0 and the home /, as in any container runtime.
func (a accounts) find(who string) (account, error) {
	if who == "" {
		if u, ok := a.entry(func(u account) bool { return u.name == defaultUser }); ok {
			return a.withGroups(u)
		}
		who = "root"
	}
	if id, err := strconv.ParseUint(who, 10, 32); err == nil && id < 1<<32-1 { // the last one means "no user" to the kernel
		if u, ok := a.entry(func(u account) bool { return u.uid == uint32(id) }); ok {
			return a.withGroups(u)
		}
		return account{name: who, uid: uint32(id), home: "/", shell: "/bin/sh"}, nil
	}
	if u, ok := a.entry(func(u account) bool { return u.name == who }); ok {
		return a.withGroups(u)
	}
	if who == "root" {
		return account{name: "root", home: "/root", shell: "/bin/sh"}, nil
	}
	return account{}, fmt.Errorf("user %q: not in /etc/passwd", clip(who))
}

// entry returns the first entry of the passwd file that matches.
func (a accounts) entry(match func(account) bool) (u account, found bool) {
	eachLine(path.Join(a.etc, "passwd"), 7, func(f []string) bool {
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		if err1 != nil || err2 != nil || f[0] == "" {
			return true
		}
		u = account{name: f[0], uid: uint32(uid), gid: uint32(gid), home: f[5], shell: f[6]}
		found = match(u)
		return !found
	})
	if u.home == "" {
		u.home = "/"
	}
	if u.shell == "" {
		u.shell = "/bin/sh"
	}
	return u, found
}

// withGroups adds the groups whose member list names the user.
func (a accounts) withGroups(u account) (account, error) {
	u.groups = []uint32{u.gid}
	eachLine(path.Join(a.etc, "group"), 4, func(f []string) bool {
		gid, err := strconv.ParseUint(f[2], 10, 32)
		if err == nil && uint32(gid) != u.gid && slices.Contains(strings.Split(f[3], ","), u.name) {
			u.groups = append(u.groups, uint32(gid))
		}
		return len(u.groups) < maxGroups
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
