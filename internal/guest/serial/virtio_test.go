package serial

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPortWaitsAndEnds uses a fifo, which both ends of are the port's: the kernel's port is tried with real machines.
func TestPortWaitsAndEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "port")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := openVirtio(path)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // more than a fifo holds
	written := make(chan error, 1)
	go func() {
		n, err := v.Write(want)
		if n != len(want) {
			err = errors.Join(err, errors.New("not all was written"))
		}
		written <- err
	}()
	var got []byte
	for b := make([]byte, 1000); len(got) < len(want); {
		n, err := v.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b[:n]...)
	}
	if err := <-written; err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v; what was read is what was written: %v", err, bytes.Equal(got, want))
	}
	ended := make(chan error)
	go func() {
		_, err := v.Read(make([]byte, 1))
		ended <- err
	}()
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read of a closed port: %v", err)
	}
}
