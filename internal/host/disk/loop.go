package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// attachTries bounds how often a free loop device is looked for: somebody else may take it first.
	attachTries = 32
	// detachTimeout is how long an unmounted device may take to detach itself, and detachPoll how often that's looked at: the kernel
	// tells nobody.
	detachTimeout = 10 * time.Second
	detachPoll    = 2 * time.Millisecond
)

// attach attaches an image to a free loop device and returns it open: it detaches itself when the last user is gone. Direct I/O spares
// a second copy of everything in the page cache; where the file system below can't do it, it's done without.
func attach(image string) (*os.File, error) {
	f, err := os.OpenFile(image, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("find a loop device: %w", err)
	}
	defer control.Close()
	for range attachTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a loop device: %w", err)
		}
		dev, err := attachTo(fmt.Sprintf("/dev/loop%d", n), f)
		if !errors.Is(err, unix.EBUSY) {
			return dev, err
		}
	}
	return nil, fmt.Errorf("attach %s to a loop device: %d in a row were taken by others", image, attachTries)
}

func attachTo(path string, image *os.File) (*os.File, error) {
	dev, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	config := unix.LoopConfig{Fd: uint32(image.Fd())}
	copy(config.Info.File_name[:], image.Name())
	for _, flags := range []uint32{unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO, unix.LO_FLAGS_AUTOCLEAR} {
		config.Info.Flags = flags
		if err = unix.IoctlLoopConfigure(int(dev.Fd()), &config); err == nil {
			return dev, nil
		}
		if !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	dev.Close()
	return nil, fmt.Errorf("attach %s to %s: %w", image.Name(), path, err)
}

// Device returns the loop device to which an image is attached, "" if none is. The kernel knows, so it's found after any crash.
func Device(image string) (string, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return "", err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // detached meanwhile
		}
		if strings.TrimSuffix(string(b), "\n") == image {
			return "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(f))), nil
		}
	}
	return "", nil
}

// awaitDetached returns when an image has no loop device any more.
func awaitDetached(ctx context.Context, image string) error {
	ctx, cancel := context.WithTimeout(ctx, detachTimeout)
	defer cancel()
	poll := time.NewTicker(detachPoll)
	defer poll.Stop()
	for {
		dev, err := Device(image)
		if err != nil || dev == "" {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("detach %s from %s: %w", image, dev, ctx.Err())
		}
	}
}
