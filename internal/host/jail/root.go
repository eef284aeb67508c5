package jail

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
)

const (
	// rootOptions bound a root directory: it holds mount points, links and device nodes.
	rootOptions = "mode=0755,size=256k,nr_inodes=256"
	// jailOptions bound what a VMM's jailer makes, a copy of the VMM and devices, and what the VMM may write there.
	jailOptions = "mode=0755,size=32m,nr_inodes=256"
	locked      = unix.MS_NOSUID | unix.MS_NODEV
)

// libraries are where a loader looks: links into /usr on a merged system, directories on others.
var libraries = []string{"lib", "lib32", "lib64"}

// devices that every program gets. Reading random numbers is what a VMM needs for its guest.
var devices = []string{"/dev/null", "/dev/zero", "/dev/urandom"}

// buildRoot makes a root directory at dir, which is a mount point, and makes it the calling thread's. The thread has a mount namespace of
// its own, in which nothing else is left.
func buildRoot(dir string, uid int, c vmm.Command) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach mounts from the host's: %w", err)
	}
	r := root{dir: dir, uid: uid}
	steps := []func() error{
		func() error { return unix.Mount("tmpfs", dir, "tmpfs", locked|unix.MS_NOEXEC, rootOptions) },
		r.addSystem,
		r.addDevices,
		func() error { return r.addJail(c.Jailer) },
		func() error { return r.addFiles(c.Bind) },
		func() error { return r.addPlaces(c.Places) },
	}
	if c.Proc {
		steps = append(steps, r.addProc)
	}
	steps = append(steps, r.seal)
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("build the root directory: %w", err)
		}
	}
	return nil
}

// root is a root directory while it's being built.
type root struct {
	dir string
	uid int
}

func (r root) path(inside string) string { return filepath.Join(r.dir, inside) }

// addSystem adds the host's programs and libraries.
func (r root) addSystem() error {
	if err := r.bindDir("/usr"); err != nil {
		return err
	}
	for _, name := range libraries {
		info, err := os.Lstat("/" + name)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return err
		case info.IsDir():
			err = r.bindDir("/" + name)
		default:
			err = r.copyLink("/" + name)
		}
		if err != nil {
			return err
		}
	}
	if _, err := os.Lstat("/etc/ld.so.cache"); err != nil {
		return nil // a loader without it is slower, that's all
	}
	return r.addFile("/etc/ld.so.cache", vmm.Source{Path: "/etc/ld.so.cache"})
}

func (r root) copyLink(path string) error {
	to, err := os.Readlink(path)
	if err != nil {
		return err
	}
	return os.Symlink(to, r.path(path))
}

// bindDir binds a directory of the host, without the mounts in it.
func (r root) bindDir(path string) error {
	target := r.path(path)
	if err := os.Mkdir(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(path, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", path, err)
	}
	return remount(target, unix.MS_RDONLY|locked)
}

// addDevices makes a file system of its own for devices, since the root's doesn't allow any.
func (r root) addDevices() error {
	target := r.path("/dev")
	if err := os.Mkdir(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, rootOptions); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for _, path := range devices {
		if err := r.addFile(path, vmm.Source{Path: path, Writable: path == "/dev/null"}); err != nil {
			return err
		}
	}
	return nil
}

// addJail adds the file system in which a VMM's jailer makes another root directory: it's to make devices there, and to execute what it copied.
func (r root) addJail(inside string) error {
	if inside == "" {
		return nil
	}
	target := r.path(inside)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID, jailOptions); err != nil {
		return fmt.Errorf("mount %s: %w", inside, err)
	}
	return nil
}

// addPlaces adds the empty files over which others can be lent.
func (r root) addPlaces(places []string) error {
	for _, inside := range places {
		if err := os.MkdirAll(filepath.Dir(r.path(inside)), 0o755); err != nil {
			return err
		}
		f, err := os.OpenFile(r.path(inside), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o400)
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// addProc adds a /proc in which the program sees no process but those of its uid, which is itself, and nothing of the system.
func (r root) addProc() error {
	target := r.path("/proc")
	if err := os.Mkdir(target, 0o555); err != nil {
		return err
	}
	if err := unix.Mount("proc", target, "proc", unix.MS_RDONLY|locked|unix.MS_NOEXEC, "hidepid=invisible,subset=pid"); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// addFiles adds what the program was given, in the order of the paths, so that an error is always the same one.
func (r root) addFiles(bind map[string]vmm.Source) error {
	for _, inside := range slices.Sorted(maps.Keys(bind)) {
		if err := r.addFile(inside, bind[inside]); err != nil {
			return err
		}
	}
	return nil
}

// addFile adds a regular file or a socket by a mount, or a device as a node of its own that belongs to the uid. A source that is a symbolic link, or
// is reached through one, is refused: somebody may have planted it.
func (r root) addFile(inside string, src vmm.Source) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, src.Path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return fmt.Errorf("open %s for %s: %w", src.Path, inside, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("open %s for %s: %w", src.Path, inside, err)
	}
	if err := os.MkdirAll(filepath.Dir(r.path(inside)), 0o755); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFSOCK:
		err = r.bindFile(fd, inside, src)
	case unix.S_IFCHR:
		err = r.makeNode(inside, st.Rdev, src.Writable)
	default:
		err = errors.New("it's neither a regular file nor a socket nor a device")
	}
	if err != nil {
		return fmt.Errorf("add %s as %s: %w", src.Path, inside, err)
	}
	return nil
}

func (r root) bindFile(fd int, inside string, src vmm.Source) error {
	target := r.path(inside)
	f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o400) // the mount point
	if err != nil {
		return err
	}
	f.Close()
	if err := unix.Mount(fmt.Sprintf("/proc/thread-self/fd/%d", fd), target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	flags := uintptr(locked)
	if !src.Executable {
		flags |= unix.MS_NOEXEC
	}
	if !src.Writable {
		flags |= unix.MS_RDONLY
	}
	return remount(target, flags)
}

func (r root) makeNode(inside string, device uint64, writable bool) error {
	if !strings.HasPrefix(inside, "/dev/") {
		return errors.New("a device's place is below /dev")
	}
	mode := uint32(0o400)
	if writable {
		mode = 0o600
	}
	target := r.path(inside)
	if err := unix.Mknod(target, unix.S_IFCHR|mode, int(device)); err != nil {
		return err
	}
	return os.Lchown(target, r.uid, r.uid)
}

// seal makes the directory the thread's root, lets go of the host's, and forbids changes.
func (r root) seal() error {
	if err := unix.Mount("", r.path("/dev"), "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("make /dev read-only: %w", err)
	}
	if err := unix.Mount("", r.dir, "", unix.MS_REMOUNT|unix.MS_RDONLY|locked|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("make it read-only: %w", err)
	}
	if err := unix.Chdir(r.dir); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil { // the old root, which is on top of the new one
		return fmt.Errorf("let go of the host's: %w", err)
	}
	return unix.Chdir("/")
}

// remount sets the flags of one bind mount.
func remount(target string, flags uintptr) error {
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != nil {
		return fmt.Errorf("restrict the mount: %w", err)
	}
	return nil
}
