package rootfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/thread"
)

// What a helper sees that was shut in: the machine's programs, a few of its settings, and what it was ordered to work with.
const (
	viewName      = "view" // where that's put together, in the order's directory
	insideWork    = "/work"
	insideLayers  = "/layers"
	insideSource  = "/source"
	viewOptions   = "mode=0755,size=64m"
	viewFlags     = unix.MS_NOSUID | unix.MS_NODEV
	readOnlyFlags = viewFlags | unix.MS_RDONLY
)

// machineFiles are what programs read: libraries, name resolution, certificates.
var machineFiles = []string{
	"/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/mke2fs.conf", "/etc/ssl/certs", "/etc/resolv.conf", "/etc/hosts",
	"/etc/nsswitch.conf",
}

// keptCapabilities are what it takes to make other users' files and devices.
var keptCapabilities = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_MKNOD, unix.CAP_SETFCAP,
}

// keptEnvironment is how a registry is reached.
var keptEnvironment = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}

// memoryLimit is what the helper's collector aims at, in bytes.
const memoryLimit = "GOMEMLIMIT=512MiB"

// shutIn takes from this process what it doesn't need (the sight of the machine's files and most of root's capabilities) and goes on
// as a new program, which does the task. It returns only an error.
func (o Order) shutIn(task string) error {
	runtime.LockOSThread()
	inside, err := o.enterView()
	if err != nil {
		return fmt.Errorf("shut the helper in: %w", err)
	}
	if err := thread.DropPrivileges(keptCapabilities...); err != nil {
		return fmt.Errorf("shut the helper in: %w", err)
	}
	order, err := json.Marshal(inside)
	if err != nil {
		return err
	}
	args := append(slices.Clone(os.Args[:len(os.Args)-2]), insideMark+task, string(order))
	return fmt.Errorf("shut the helper in: %w", unix.Exec("/proc/self/exe", args, environment()))
}

func environment() []string {
	env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", memoryLimit}
	for _, name := range keptEnvironment {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// enterView makes the view the process's root. It returns the order with the paths that it has in there.
func (o Order) enterView() (Order, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return o, fmt.Errorf("cut its mounts off: %w", err)
	}
	v := view(filepath.Join(o.Dir, viewName))
	if err := os.Mkdir(string(v), 0o700); err != nil {
		return o, err
	}
	if err := unix.Mount("tmpfs", string(v), "tmpfs", viewFlags, viewOptions); err != nil {
		return o, err
	}
	inside, err := v.fill(o)
	if err != nil {
		return o, err
	}
	return inside, v.enter()
}

// view is the directory that becomes the root.
type view string

func (v view) path(p string) string { return filepath.Join(string(v), p) }

func (v view) fill(o Order) (Order, error) {
	for _, p := range machineFiles {
		if err := v.addMachine(p); err != nil {
			return o, err
		}
	}
	for _, add := range []struct {
		from   *string
		inside string
		flags  uintptr
	}{
		{&o.Dir, insideWork, viewFlags | unix.MS_NOEXEC}, {&o.Layers, insideLayers, viewFlags | unix.MS_NOEXEC},
		{&o.Archive, insideSource, readOnlyFlags | unix.MS_NOEXEC}, {&o.Rootfs, insideSource, readOnlyFlags | unix.MS_NOEXEC},
	} {
		if *add.from == "" {
			continue
		}
		if err := v.bind(*add.from, add.inside, add.flags); err != nil {
			return o, err
		}
		*add.from = add.inside
	}
	return o, v.addKernel()
}

// addMachine adds a file or directory of the machine, read-only, or a copy of a link. What the machine lacks is left out.
func (v view) addMachine(p string) error {
	info, err := os.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 && !strings.HasPrefix(p, "/etc/") { // a directory that moved into /usr
		to, err := os.Readlink(p)
		if err != nil {
			return err
		}
		return os.Symlink(to, v.path(p))
	}
	if _, err := os.Stat(p); errors.Is(err, fs.ErrNotExist) {
		return nil // a link to nothing
	}
	return v.bind(p, p, readOnlyFlags)
}

// bind makes what's at a path visible in the view, without the mounts in it.
func (v view) bind(from, inside string, flags uintptr) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	target := v.path(inside)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if info.IsDir() {
		err = os.Mkdir(target, 0o755)
	} else {
		err = os.WriteFile(target, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", inside, err)
	}
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != nil {
		return fmt.Errorf("restrict %s: %w", inside, err)
	}
	return nil
}

// addKernel adds what the kernel has to say, and three devices.
func (v view) addKernel() error {
	for _, dir := range []string{"/proc", "/dev", "/tmp"} {
		if err := os.Mkdir(v.path(dir), 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", v.path("/proc"), "proc", viewFlags|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount its /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", v.path("/dev"), "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, viewOptions); err != nil {
		return fmt.Errorf("mount its /dev: %w", err)
	}
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "urandom": 9} {
		if err := unix.Mknod(v.path("/dev/"+name), unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	return nil
}

// enter makes the view the root and lets go of everything else.
func (v view) enter() error {
	if err := unix.Chdir(string(v)); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil { // the old root, which is on top of the new one
		return fmt.Errorf("let go of the machine's files: %w", err)
	}
	return unix.Chdir("/")
}
