package pager

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

const confinedVariable = "SPACE_TEST_PAGER_CONFINED"

// beConfined is what the test's program does under the filter.
func beConfined() error {
	if err := confine(); err != nil {
		return err
	}
	_, open := os.Open("/dev/null")
	_, socket := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	_, _, request := unix.Syscall(unix.SYS_IOCTL, 0, unix.TCGETS, 0)
	for what, err := range map[string]error{
		"open a file": open, "make a socket": socket, "ask for a terminal": request, "execute": unix.Exec("/bin/true", []string{"true"}, nil),
		"signal a process": unix.Kill(os.Getppid(), 0), "trace one": unix.PtraceAttach(os.Getppid()),
	} {
		if !errors.Is(err, unix.ENOSYS) {
			return fmt.Errorf("%s: %w, want ENOSYS", what, err)
		}
	}
	done := make(chan struct{})
	for range 64 { // threads come and go
		go func() { done <- struct{}{} }()
	}
	for range 64 {
		<-done
	}
	return nil
}

func TestAPagerCanOpenConnectAndExecuteNothing(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), confinedVariable+"=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s, %v", out, err)
	}
}
