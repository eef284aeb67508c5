package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/supervise"
)

// Systemd is a machine's systemd.
type Systemd struct {
	Dir    string // holds the units that an administrator adds
	Booted string // exists while systemd is the machine's init
}

// Machine is the systemd of this machine, whether it runs or not.
func Machine() Systemd { return Systemd{Dir: "/etc/systemd/system", Booted: "/run/systemd/system"} }

// controlTimeout bounds one call of systemctl: it waits until all roles have ended, each within its grace.
const controlTimeout = 3 * time.Minute

// maxOutput bounds in bytes how much of systemctl's output an error repeats.
const maxOutput = 2 << 10

// Running tells whether systemd is the machine's init.
func (s Systemd) Running() bool {
	_, err := os.Stat(s.Booted)
	return err == nil
}

// Keeps tells whether systemd keeps an instance's roles: its units are installed, and systemd runs to read them.
func (s Systemd) Keeps(i instance.Instance) bool {
	_, err := os.Stat(filepath.Join(s.Dir, target(i)))
	return err == nil && s.Running()
}

// Active tells whether systemd keeps an instance's roles and has been told to run them.
func (s Systemd) Active(ctx context.Context, i instance.Instance) bool {
	return s.Keeps(i) && control(ctx, "is-active", "--quiet", target(i)) == nil
}

// Install writes an instance's units and removes those that it had and doesn't need any more. It starts nothing.
func (s Systemd) Install(ctx context.Context, i instance.Instance, programs []supervise.Program) error {
	units := Units(i, programs)
	for _, p := range programs {
		if err := keep(environmentFile(i, p), environment(p)); err != nil {
			return fmt.Errorf("install systemd units: %w", err)
		}
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("install systemd units: %w", err)
	}
	for name, text := range units {
		if err := durable.WriteFile(filepath.Join(s.Dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("install systemd units: %w", err)
		}
	}
	for _, path := range s.files(i) {
		if _, wanted := units[filepath.Base(path)]; !wanted {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("install systemd units: %w", err)
			}
		}
	}
	return s.reload(ctx)
}

// keep makes a file of root's own say a text; without one there's no file.
func keep(path, text string) error {
	if text != "" {
		return durable.WriteFile(path, []byte(text), 0o600)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Remove removes an instance's units, and what an administrator enabled of them. They must have been stopped.
func (s Systemd) Remove(ctx context.Context, i instance.Instance) error {
	paths := s.files(i)
	links, _ := filepath.Glob(filepath.Join(s.Dir, "*.wants", target(i))) // the pattern is well-formed
	dropIns, _ := filepath.Glob(filepath.Join(s.Dir, "space*@"+i.Name+".*.d"))
	for _, path := range append(append(paths, links...), dropIns...) {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove systemd units: %w", err)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return s.reload(ctx)
}

// files are the units of an instance that are installed.
func (s Systemd) files(i instance.Instance) []string {
	var out []string
	for _, kind := range []string{"target", "service", "timer"} {
		paths, _ := filepath.Glob(filepath.Join(s.Dir, "space*@"+i.Name+"."+kind)) // the pattern is well-formed
		out = append(out, paths...)
	}
	return out
}

// Start starts what of an instance doesn't run.
func (s Systemd) Start(ctx context.Context, i instance.Instance) error {
	return control(ctx, "start", target(i))
}

// Restart replaces the named roles.
func (s Systemd) Restart(ctx context.Context, i instance.Instance, programs []supervise.Program) error {
	args := []string{"restart"}
	for _, p := range programs {
		args = append(args, service(i, p.Name))
	}
	return control(ctx, args...)
}

// Stop stops an instance's roles and returns when they have ended; machines go on. Doing it twice is the same as once.
func (s Systemd) Stop(ctx context.Context, i instance.Instance) error {
	args := []string{"stop"} // each unit: the target's own stop doesn't wait for the others
	for _, path := range s.files(i) {
		args = append(args, filepath.Base(path))
	}
	return control(ctx, args...)
}

// reload makes a systemd that runs read the units.
func (s Systemd) reload(ctx context.Context) error {
	if !s.Running() {
		return nil
	}
	return control(ctx, "daemon-reload")
}

// control calls systemctl.
func control(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out[max(0, len(out)-maxOutput):])))
	}
	return nil
}
