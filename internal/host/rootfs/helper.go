package rootfs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Subcommand is the hidden argument with which a program becomes the helper; what follows goes to HelperMain.
const Subcommand = "make-rootfs"

// helperTimeout is how long a helper may work: a slow archive over a slow line.
const helperTimeout = 20 * time.Minute

// Helper starts the helper.
type Helper struct {
	Program []string // the program that becomes the helper, and its first arguments; HelperMain gets the rest
}

// Self is the helper of a program that calls HelperMain for Subcommand.
func Self() Helper { return Helper{Program: []string{"/proc/self/exe", Subcommand}} }

// What a helper is started for.
const (
	taskMake    = "make"
	taskResolve = "resolve"
	insideMark  = "inside-" // begins the task of a helper that is where it's to be
)

// Make lets a helper make a file system, which leaves disk.img in the order's directory. When ctx ends, or after 20 minutes, all of its
// processes are killed. A *space.Error says what is wrong with the source.
func (h Helper) Make(ctx context.Context, o Order, progress func(string)) (Result, error) {
	r, err := h.run(ctx, taskMake, o, progress)
	if err != nil {
		return r, fmt.Errorf("make the file system of %s: %w", o, err)
	}
	return r, nil
}

// Resolve lets a helper ask a registry what the order's image is now. It leaves nothing.
func (h Helper) Resolve(ctx context.Context, o Order) (Result, error) {
	r, err := h.run(ctx, taskResolve, o, func(string) {})
	if err != nil {
		return r, fmt.Errorf("find out what %s is: %w", o, err)
	}
	return r, nil
}

func (h Helper) run(ctx context.Context, task string, o Order, progress func(string)) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	o.LoginFollows = o.Login != nil
	order, err := json.Marshal(o)
	if err != nil {
		return Result{}, err
	}
	c := exec.CommandContext(ctx, h.Program[0], append(h.Program[1:], task, string(order))...)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: o.namespaces()}
	alive, err := c.StdinPipe() // open as long as this process lives: the helper ends itself when it closes
	if err != nil {
		return Result{}, err
	}
	defer alive.Close()
	out, err := c.StdoutPipe()
	if err != nil {
		return Result{}, err
	}
	c.Stderr = c.Stdout
	if o.LoginFollows {
		login, err := sendLogin(*o.Login)
		if err != nil {
			return Result{}, err
		}
		defer login.Close()
		c.ExtraFiles = []*os.File{login} // loginFD
	}
	if err := c.Start(); err != nil {
		return Result{}, fmt.Errorf("start the helper: %w", err)
	}
	s := listen(out, progress)
	err = c.Wait()
	switch {
	case err != nil && ctx.Err() != nil:
		return Result{}, context.Cause(ctx)
	case err != nil:
		return Result{}, s.error(err)
	}
	return s.result, nil
}

// namespaces are the helper's own. One that needs no network has none.
func (o Order) namespaces() uintptr {
	flags := uintptr(syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS)
	if o.Archive != "" || o.Rootfs != "" {
		flags |= syscall.CLONE_NEWNET
	}
	return flags
}

// HelperMain is the helper's main function: args are a task and an order. It returns the process's exit code. It ends at once when its
// standard input does, and as the first process of its namespace it takes all others with it.
func HelperMain(args []string) int {
	var o Order
	if len(args) != 2 || json.Unmarshal([]byte(args[1]), &o) != nil {
		fmt.Fprintln(os.Stderr, "usage: "+Subcommand+" TASK ORDER")
		return 2
	}
	if err := o.receiveLogin(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, "the registry's login didn't come")
		return 1
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // whoever ordered the work is gone
	}()
	r, err := o.do(args[0])
	return o.print(os.Stdout, r, err)
}

// do does a task. For a source that somebody else made it begins by shutting the process in, and goes on in a new program.
func (o Order) do(task string) (Result, error) {
	progress := func(line string) { fmt.Println(progressMark + line) }
	switch {
	case task == insideMark+taskResolve:
		return resolve(context.Background(), o)
	case task == insideMark+taskMake:
		return makeAll(context.Background(), o, progress)
	case o.foreign():
		return Result{}, o.shutIn(task)
	}
	if err := ownMounts(o.Dir); err != nil {
		return Result{}, err
	}
	return makeAll(context.Background(), o, progress)
}
