package rootfs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Subcommand is the hidden argument with which a program becomes the helper; what follows goes to HelperMain.
const Subcommand = "make-rootfs"

// helperTimeout is how long a helper may work: a slow archive over a slow line.
const helperTimeout = 20 * time.Minute

// The limits of what a helper's lines may be.
const (
	maxLine      = 4 << 10
	progressMark = "progress: "
)

// Helper starts the helper.
type Helper struct {
	Program []string // the program that becomes the helper, and its first arguments; HelperMain gets the rest
}

// Self is the helper of a program that calls HelperMain for Subcommand.
func Self() Helper { return Helper{Program: []string{"/proc/self/exe", Subcommand}} }

// Make lets a helper run a recipe, which leaves dir/disk.img. When ctx ends, or after 20 minutes, all of its processes are killed.
func (h Helper) Make(ctx context.Context, r Recipe, dir string, progress func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, h.Program[0], append(h.Program[1:], r.Name, strconv.FormatInt(r.Size.DiskBytes, 10), dir)...)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	}
	alive, err := c.StdinPipe() // open as long as this process lives: the helper ends itself when it closes
	if err != nil {
		return fmt.Errorf("start the helper: %w", err)
	}
	defer alive.Close()
	out, err := c.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start the helper: %w", err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		return fmt.Errorf("start the helper: %w", err)
	}
	last := relay(out, progress)
	if err := c.Wait(); err != nil {
		return fmt.Errorf("make the file system of %s: %w", r.Name, cause(ctx, err, last))
	}
	return nil
}

// relay passes progress on until the helper closes its output. It returns the last other line: the reason of a failure.
func relay(out io.Reader, progress func(string)) (last string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if line, ok := strings.CutPrefix(lines.Text(), progressMark); ok {
			progress(line)
		} else if line := strings.TrimSpace(lines.Text()); line != "" {
			last = line
		}
	}
	io.Copy(io.Discard, out) // a line was too long: let the helper go on
	return last
}

func cause(ctx context.Context, err error, last string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if last != "" {
		return errors.New(last)
	}
	return err
}

// HelperMain is the helper's main function: args are a recipe, the size of its disk in bytes and a directory. It returns the process's exit code. It ends at once when
// its standard input does, and as the first process of its namespace it takes all others with it.
func HelperMain(args []string) int {
	if len(args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: "+Subcommand+" RECIPE BYTES DIR")
		return 2
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // whoever ordered the work is gone
	}()
	r, err := Find(args[0])
	if err == nil {
		r.Size.DiskBytes, err = strconv.ParseInt(args[1], 10, 64)
	}
	if err == nil {
		err = ownMounts(args[2])
	}
	if err == nil {
		err = makeAll(context.Background(), r, args[2], func(line string) { fmt.Println(progressMark + line) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", " | "))
		return 1
	}
	return 0
}

// ownMounts cuts the helper's mounts off from the machine's, shows it its own processes only, and lets it run programs and use devices in
// its directory, which the volume's mount forbids.
func ownMounts(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil { // what the machine unmounts isn't held here
		return fmt.Errorf("cut the helper's mounts off: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount the helper's /proc: %w", err)
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the helper's directory: %w", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("allow programs in the helper's directory: %w", err)
	}
	return nil
}
