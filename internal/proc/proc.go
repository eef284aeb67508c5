// Package proc names processes so that a number is never mistaken for another process that got it later.
//
// It's for processes that needn't be children: a VMM outlives the daemon that started it, and the daemon's next life finds it again by
// what was written down. Its invariant: a signal, or the news of an end, concerns the process that was named, or nobody.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrGone is returned when no such process exists any more, whoever has its pid now.
var ErrGone = errors.New("the process is gone")

// maxProcFile bounds what is read of a file below /proc/PID: stat is a few hundred bytes, status about a thousand.
const maxProcFile = 64 << 10

// ID tells one process apart from all others that ever ran on this machine.
type ID struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // clock ticks since boot, field 22 of /proc/PID/stat
	BootID    string `json:"boot_id"`    // a pid of another boot is nobody
}

// BootID identifies the machine's present boot.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Read returns the ID of the process that has the pid now. ErrGone if there is none, or only a zombie.
func Read(pid int) (ID, error) {
	st, err := readStat(pid)
	if err != nil {
		return ID{}, err
	}
	if st.state == 'Z' || st.state == 'X' {
		return ID{}, fmt.Errorf("process %d: %w", pid, ErrGone)
	}
	boot, err := BootID()
	if err != nil {
		return ID{}, err
	}
	return ID{PID: pid, StartTime: st.startTime, BootID: boot}, nil
}

// Alive tells whether the process of an ID still runs. A zombie doesn't.
func (id ID) Alive() bool {
	now, err := Read(id.PID)
	return err == nil && now == id
}

// StartTime returns when a process began, in clock ticks since boot. Unlike Read it answers for a zombie too: a parent learns it of a
// child that it hasn't waited for, however short its life. ErrGone if there is none.
func StartTime(pid int) (uint64, error) {
	s, err := readStat(pid)
	return s.startTime, err
}

// UID returns a process's effective uid. ErrGone if there is none.
func UID(pid int) (int, error) {
	b, err := readProc(pid, "status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) >= 3 && f[0] == "Uid:" {
			return strconv.Atoi(f[2])
		}
	}
	return 0, fmt.Errorf("process %d: its status names no uid", pid)
}

type stat struct {
	state     byte
	startTime uint64
}

func readStat(pid int) (stat, error) {
	b, err := readProc(pid, "stat")
	if err != nil {
		return stat{}, err
	}
	s, err := parseStat(b)
	if err != nil {
		return stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return s, nil
}

// parseStat reads a line of /proc/PID/stat. The second field is the program's name in brackets and may hold anything, brackets and
// spaces too, so fields are counted from the last closing one.
func parseStat(b []byte) (stat, error) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return stat{}, errors.New("malformed stat: no program name")
	}
	const firstAfterName, startTimeField = 3, 22
	f := strings.Fields(string(b[i+1:]))
	if len(f) <= startTimeField-firstAfterName || len(f[0]) != 1 {
		return stat{}, fmt.Errorf("malformed stat: %d fields after the name", len(f))
	}
	start, err := strconv.ParseUint(f[startTimeField-firstAfterName], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("malformed stat: start time: %w", err)
	}
	return stat{state: f[0][0], startTime: start}, nil
}

func readProc(pid int, name string) ([]byte, error) {
	if pid <= 0 {
		return nil, fmt.Errorf("process %d: %w", pid, ErrGone)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		return nil, goneOr(pid, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProcFile))
	if err != nil {
		return nil, goneOr(pid, err)
	}
	return b, nil
}

// goneOr turns the ways in which /proc says that a process ended into ErrGone.
func goneOr(pid int, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: %w", pid, ErrGone)
	}
	return fmt.Errorf("process %d: %w", pid, err)
}
