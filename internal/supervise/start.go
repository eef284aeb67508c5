package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// start runs a program as its user in a session of its own, with nothing open but its log.
func start(p Program, logs string) (*exec.Cmd, error) {
	log, err := openLog(logs, p.Name)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer log.Close()
	c := exec.Command(p.Path, p.Args...)
	c.Dir = "/"
	c.Env = p.Env
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: credential(p)}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	return c, nil
}

func credential(p Program) *syscall.Credential {
	groups := make([]uint32, len(p.Groups))
	for i, g := range p.Groups {
		groups[i] = uint32(g)
	}
	return &syscall.Credential{Uid: uint32(p.UID), Gid: uint32(p.GID), Groups: groups}
}

// LogFile is where a role's output goes.
func LogFile(dir, name string) string { return filepath.Join(dir, name+".log") }

// openLog opens for appending, so that a truncation by rotate leaves no hole.
func openLog(dir, name string) (*os.File, error) {
	return os.OpenFile(LogFile(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
}
