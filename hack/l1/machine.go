package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/space-platform/space/internal/host/vmm/tsc"
)

// errPanicked says that the L1's own kernel has panicked, and panicked is what that says then.
var errPanicked = errors.New("the L1's kernel has panicked")

const panicked = "Kernel panic - not syncing"

// order is what the L1 is to do; it finds it in its root file system.
type order struct {
	Cgroup  int      `json:"cgroup"`
	Env     []string `json:"env"`
	Command []string `json:"command"`
}

// orderName is the file with the order.
const orderName = "l1.json"

// machine is one L1.
type machine struct {
	options
	dir string // for what lasts as long as it does
}

// run runs the command in it and returns its exit code.
func (m machine) run(ctx context.Context) (int, error) {
	files, err := outerKernel(ctx, m.cache)
	if err != nil {
		return exitBroken, err
	}
	disk, err := m.makeDisk(ctx)
	if err != nil {
		return exitBroken, err
	}
	khz, err := tsc.KHz()
	if err != nil {
		return exitBroken, err
	}
	if m.console == "" {
		m.console = filepath.Join(m.dir, "console")
	}
	// A guest's processor under emulation has the host's counter, and calibrating it fails at random on a busy host.
	cmdline := fmt.Sprintf("console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr tsc_early_khz=%d tsc=reliable no_timer_check "+
		"random.trust_cpu=on cryptomgr.notests", khz)
	c := exec.CommandContext(ctx, "qemu-system-x86_64",
		"-M", "q35", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-accel", "tcg,thread=multi,tb-size=512",
		"-cpu", "EPYC", "-smp", strconv.Itoa(m.cpus), "-m", strconv.Itoa(m.memory),
		"-serial", "file:"+m.console, "-serial", "stdio", "-kernel", files.Vmlinux, "-initrd", files.Initrd, "-append", cmdline,
		"-drive", "if=virtio,format=raw,readonly=on,cache=unsafe,file="+strings.ReplaceAll(disk, ",", ",,"))
	c.Stdout = os.Stdout
	said := new(strings.Builder)
	c.Stderr = said // TCG's warnings about features that it lacks
	port, err := c.StdinPipe()
	if err != nil {
		return exitBroken, err
	}
	if err := c.Start(); err != nil {
		return exitBroken, fmt.Errorf("QEMU: %w", err)
	}
	beating, stop := context.WithCancel(ctx)
	var beats sync.WaitGroup
	beats.Go(func() { beat(beating, port) })
	err = c.Wait() // closes the port
	stop()
	beats.Wait()
	if ctx.Err() != nil {
		return exitTimeout, fmt.Errorf("the console ends with:\n%s", tail(m.console))
	}
	if err != nil {
		return exitBroken, fmt.Errorf("QEMU: %w: %s", err, said)
	}
	return m.exitCode()
}

// endRE is what the first process says last.
var endRE = regexp.MustCompile(`(?m)^l1: the command ended with (\d{1,3})\r?$`)

func (m machine) exitCode() (int, error) {
	b, err := os.ReadFile(m.console)
	if err != nil {
		return exitBroken, err
	}
	found := endRE.FindSubmatch(b)
	if found == nil {
		err := fmt.Errorf("the L1 ended without having run the command; its console ends with:\n%s", tail(m.console))
		if bytes.Contains(b, []byte(panicked)) {
			err = errors.Join(errPanicked, err)
		}
		return exitBroken, err
	}
	return strconv.Atoi(string(found[1]))
}

// makeDisk makes the root file system.
func (m machine) makeDisk(ctx context.Context) (string, error) {
	t := tree{root: filepath.Join(m.dir, "root")}
	if err := t.fill(m.options); err != nil {
		return "", fmt.Errorf("make the root file system: %w", err)
	}
	if m.kernel != "" {
		dir, err := innerKernel(ctx, m.options)
		if err != nil {
			return "", err
		}
		if err := t.copy(dir, m.kernel); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(order{Cgroup: m.cgroup, Env: m.env, Command: m.command})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(t.root, orderName), b, 0o644); err != nil {
		return "", err
	}
	image := filepath.Join(m.dir, "disk")
	out, err := exec.CommandContext(ctx, "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", t.root, image,
		fmt.Sprintf("%dm", m.disk)).CombinedOutput()
	if err != nil {
		return "", errors.Join(fmt.Errorf("mke2fs: %s", out), err)
	}
	return image, os.RemoveAll(t.root)
}
