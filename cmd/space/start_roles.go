package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/supervise"
	"github.com/space-platform/space/internal/systemd"
)

// startRoles has the roles started by systemd if it keeps them, else by a supervisor.
func startRoles(ctx context.Context, i instance.Instance, replace bool) (note string, err error) {
	if systemd.Machine().Keeps(i) {
		return startUnits(ctx, i, replace)
	}
	return supervised(ctx, i, replace)
}

// startUnits brings the units up to date and has systemd start them, after a supervisor has let go of the roles. Roles of an older build are
// replaced, and all are if that's wanted, as supervised does it.
func startUnits(ctx context.Context, i instance.Instance, replace bool) (note string, err error) {
	self := filepath.Join(i.BinDir(), "space")
	all := programs(i, self)
	ours := slices.DeleteFunc(slices.Clone(all), func(p supervise.Program) bool { return p.Name == string(instance.Postgres) })
	if supervise.Running(i.RunDir()) {
		if err := supervise.Stop(ctx, superviseDirs(i), all); err != nil {
			return "", err
		}
	}
	if err := installUnits(ctx, i); err != nil {
		return "", err
	}
	note = "kept by systemd"
	if old := outdated(i, self, ours); len(old) > 0 || replace {
		if err := systemd.Machine().Restart(ctx, i, ours); err != nil {
			return "", err
		}
		note = fmt.Sprintf("kept by systemd, and replaced, %d of an older build", len(old))
	}
	return note, systemd.Machine().Start(ctx, i)
}

// supervised starts the supervisor, which starts the roles, unless it runs. Roles of an older build end first, and all do if they are to
// be replaced; machines and PostgreSQL, which aren't ours to replace, go on.
func supervised(ctx context.Context, i instance.Instance, replace bool) (note string, err error) {
	self := filepath.Join(i.BinDir(), "space")
	ours := slices.DeleteFunc(programs(i, self), func(p supervise.Program) bool { return p.Name == string(instance.Postgres) })
	old := outdated(i, self, ours)
	if len(old) > 0 || replace && supervise.Running(i.RunDir()) {
		if err := supervise.Stop(ctx, superviseDirs(i), ours); err != nil {
			return "", err
		}
		note = fmt.Sprintf("replaced, %d of an older build", len(old))
	}
	if supervise.Running(i.RunDir()) {
		return "running already", nil
	}
	return note, startSupervisor(i, self)
}

// outdated names the roles that live and run another binary than the installed one.
func outdated(i instance.Instance, self string, ps []supervise.Program) []string {
	want, err := os.Stat(self)
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range append([]supervise.Program{{Name: supervise.Name}}, ps...) {
		rec, err := supervise.Read(i.RunDir(), p.Name)
		if err != nil || !rec.Alive() {
			continue
		}
		have, err := os.Stat(fmt.Sprintf("/proc/%d/exe", rec.PID))
		if err == nil && !os.SameFile(have, want) {
			out = append(out, p.Name)
		}
	}
	return out
}

// startSupervisor leaves a supervisor behind that is nobody's child and holds nothing of the terminal.
func startSupervisor(i instance.Instance, self string) error {
	log, err := os.OpenFile(supervise.LogFile(i.LogDir(), supervise.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	defer log.Close()
	c := exec.Command(self, string(instance.Supervisor), "--instance", i.Name)
	c.Dir, c.Env = "/", roleEnvironment()
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	return c.Process.Release()
}
