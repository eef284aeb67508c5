package kernel_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/kernel"
)

// prepared is a directory in which a kernel is already, with a guest beside it: nothing has to be fetched.
func prepared(t *testing.T) kernel.Options {
	t.Helper()
	dir := t.TempDir()
	tree := filepath.Join(dir, "linux-6.1.1-1")
	write(t, filepath.Join(tree, "vmlinux"), "the kernel")
	write(t, filepath.Join(tree, "modules", "virtio.ko"), "a module")
	write(t, filepath.Join(tree, "kernel.json"), `{"version":"6.1.1-1","vmlinux_sha256":"aa","modules":["virtio.ko"],"wanted":`+
		`["virtio_mmio","virtio_console","vmw_vsock_virtio_transport","virtio_blk","virtio_net","virtio_rng"]}`)
	guest := filepath.Join(t.TempDir(), "spaced-guest")
	write(t, guest, "the guest")
	return kernel.Options{Dir: dir, Guest: guest, Cache: filepath.Join(dir, "cache"), Progress: func(line string) { t.Log(line) }}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func prepare(t *testing.T, o kernel.Options) kernel.Files {
	t.Helper()
	f, err := kernel.Prepare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPrepareFindsWhatIsThere(t *testing.T) {
	o := prepared(t)
	first := prepare(t, o)
	if first.Version != "6.1.1-1" || len(first.Digest) != 64 || first.Vmlinux != filepath.Join(o.Dir, "linux-6.1.1-1", "vmlinux") || first.Tuned ||
		first.For(1) != first.For(2) {
		t.Errorf("Prepare = %+v", first)
	}
	o.Progress = func(line string) { t.Errorf("the second call did something: %s", line) }
	if second := prepare(t, o); second != first {
		t.Errorf("the second call returned %+v, the first %+v", second, first)
	}
}

func TestAnotherGuestIsAnotherDigest(t *testing.T) {
	o := prepared(t)
	first := prepare(t, o)
	write(t, o.Guest, "a newer guest")
	second := prepare(t, o)
	if second.Digest == first.Digest || second.Initrd == first.Initrd || second.Vmlinux != first.Vmlinux {
		t.Errorf("%+v, then %+v", first, second)
	}
	if _, err := os.Stat(first.Initrd); err != nil {
		t.Errorf("an initramfs that a running daemon may use: %v", err)
	}
}

func TestACutInitramfsIsWrittenAgain(t *testing.T) {
	o := prepared(t)
	first := prepare(t, o)
	if err := os.Truncate(first.Initrd, 10); err != nil {
		t.Fatal(err)
	}
	prepare(t, o)
	if info, err := os.Stat(first.Initrd); err != nil || info.Size() == 10 {
		t.Errorf("it's still cut: %v", err)
	}
}

func TestOldInitramfsFilesAreRemoved(t *testing.T) {
	o := prepared(t)
	for _, guest := range []string{"a", "b", "c", "d", "e"} {
		write(t, o.Guest, guest)
		prepare(t, o)
	}
	left, err := filepath.Glob(filepath.Join(o.Dir, "initrd-*"))
	if err != nil || len(left) != 3 {
		t.Errorf("%d are left: %v, %v", len(left), left, err)
	}
}

func TestSeveralMayPrepareAtOnce(t *testing.T) {
	o := prepared(t)
	o.Progress = nil
	want := prepare(t, o)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := kernel.Prepare(t.Context(), o); err != nil || got != want {
				t.Errorf("Prepare = %+v, %v", got, err)
			}
		})
	}
	all.Wait()
}

func TestWaitingForAnotherProcessObeysTheContext(t *testing.T) {
	o := prepared(t)
	f, err := os.Create(filepath.Join(o.Dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := kernel.Prepare(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Prepare = %v, want the deadline", err)
	}
}

func TestAMissingGuestIsNamed(t *testing.T) {
	o := prepared(t)
	o.Guest += ".missing"
	if _, err := kernel.Prepare(t.Context(), o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Prepare = %v, want that it doesn't exist", err)
	}
}
