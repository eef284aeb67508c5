package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
)

// EnsureUsers makes the instance's group, and a system user and group for each role that has one, with the ids that the instance's slot
// says. A name that exists with another id is refused: files of it could be anywhere.
func EnsureUsers(ctx context.Context, i instance.Instance) error {
	unlock, err := lockUsers()
	if err != nil {
		return err
	}
	defer unlock()
	if err := ensureGroup(ctx, i.Group(), i.GID()); err != nil {
		return err
	}
	for _, r := range instance.Users() {
		if err := ensureGroup(ctx, i.User(r), i.UID(r)); err != nil {
			return err
		}
		if err := ensureUser(ctx, i.User(r), i.UID(r), i.Group()); err != nil {
			return err
		}
	}
	return nil
}

// RemoveUsers takes the instance's users and groups away.
func RemoveUsers(ctx context.Context, i instance.Instance) error {
	unlock, err := lockUsers()
	if err != nil {
		return err
	}
	defer unlock()
	for _, r := range instance.Users() {
		if _, err := user.Lookup(i.User(r)); err == nil {
			if err := command(ctx, "userdel", i.User(r)); err != nil {
				return err
			}
		}
		if err := removeGroup(ctx, i.User(r)); err != nil { // userdel may have
			return err
		}
	}
	return removeGroup(ctx, i.Group())
}

func ensureGroup(ctx context.Context, name string, gid int) error {
	g, err := user.LookupGroup(name)
	if err == nil {
		return sameID("group", name, g.Gid, gid)
	}
	if !errors.As(err, new(user.UnknownGroupError)) {
		return fmt.Errorf("look up group %s: %w", name, err)
	}
	return command(ctx, "groupadd", "--system", "--gid", strconv.Itoa(gid), name)
}

func ensureUser(ctx context.Context, name string, uid int, group string) error {
	u, err := user.Lookup(name)
	if err == nil {
		return sameID("user", name, u.Uid, uid)
	}
	if !errors.As(err, new(user.UnknownUserError)) {
		return fmt.Errorf("look up user %s: %w", name, err)
	}
	return command(ctx, "useradd", "--system", "--uid", strconv.Itoa(uid), "--gid", strconv.Itoa(uid), "--groups", group,
		"--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", name)
}

func removeGroup(ctx context.Context, name string) error {
	if _, err := user.LookupGroup(name); err != nil {
		return nil
	}
	return command(ctx, "groupdel", name)
}

func sameID(kind, name, have string, want int) error {
	if have != strconv.Itoa(want) {
		return fmt.Errorf("%s %s exists with id %s, want %d: remove it, or use another instance name", kind, name, have, want)
	}
	return nil
}

// lockUsers keeps setups of several instances from failing on the user database's own lock, which doesn't wait.
func lockUsers() (unlock func(), err error) {
	f, err := os.Open("/etc")
	if err != nil {
		return nil, fmt.Errorf("lock the user database: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the user database: %w", err)
	}
	return func() { f.Close() }, nil
}

// maxOutput bounds how much of a command's output an error repeats.
const maxOutput = 2 << 10

// command runs a program whose output matters only when it fails.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		text := strings.TrimSpace(string(out[max(0, len(out)-maxOutput):]))
		return fmt.Errorf("run %s %s: %w: %s", name, strings.Join(args, " "), err, text)
	}
	return nil
}
