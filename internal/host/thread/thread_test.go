package thread_test

import (
	"errors"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/thread"
)

func TestTheThreadIsNeverTheFirstAndLeavesNothingBehind(t *testing.T) {
	before, err := os.Readlink("/proc/self/ns/uts")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			err := thread.Run(func() error {
				if unix.Gettid() == os.Getpid() {
					return errors.New("ran on the first thread")
				}
				return unix.Unshare(unix.CLONE_NEWUTS)
			})
			if err != nil {
				t.Error(err)
			}
			here, err := os.Readlink("/proc/thread-self/ns/uts")
			if err != nil || here != before {
				t.Errorf("a goroutine is in namespace %s, %v, want %s", here, err, before)
			}
		})
	}
	wg.Wait()
	if after, err := os.Readlink("/proc/self/ns/uts"); err != nil || after != before {
		t.Errorf("the process is in namespace %s, %v, want %s", after, err, before)
	}
}
