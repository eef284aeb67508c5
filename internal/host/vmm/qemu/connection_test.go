package qemu

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestConnectionEndsTogether: who writes while a connection is being ended isn't told that nobody reads, and it's over when both have ended it.
func TestConnectionEndsTogether(t *testing.T) {
	ours, peer := connected(t)
	c := newConnection(ours, func() bool { return false })
	c.settle(t.Context()) // nothing to wait for yet
	c.Close()
	if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the other end reads %d bytes, %v, want the end", n, err)
	}
	for range 100 {
		if _, err := peer.Write(make([]byte, 32<<10)); err != nil {
			t.Fatalf("the other end can't write any more: %v", err)
		}
	}
	select {
	case <-c.over:
		t.Error("it's over though the other end is open")
	default:
	}
	peer.Close()
	waitFor(t, c)
	c.Close() // again
}

// TestConnectionWithoutAnswer: an end that nobody notices is one all the same, in its time.
func TestConnectionWithoutAnswer(t *testing.T) {
	ours, peer := connected(t)
	c := newConnection(ours, func() bool { return false })
	began := time.Now()
	c.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c.settle(ended)
	if took := time.Since(began); took >= hangUpLimit {
		t.Errorf("who had no time has waited for %s", took)
	}
	waitFor(t, c)
	if _, err := peer.Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("afterwards a write: %v, want %v", err, unix.EPIPE)
	}
}

// TestConnectionOfAStoppedMachine ends at once.
func TestConnectionOfAStoppedMachine(t *testing.T) {
	ours, peer := connected(t)
	c := newConnection(ours, func() bool { return true })
	c.Close()
	select {
	case <-c.over:
	default:
		t.Error("it isn't over")
	}
	if _, err := peer.Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("a write: %v, want %v", err, unix.EPIPE)
	}
}

func waitFor(t *testing.T, c *connection) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c.settle(ctx)
	if ctx.Err() != nil {
		t.Fatal("it isn't over")
	}
}

// connected returns both ends of a unix socket.
func connected(t *testing.T) (ours *net.UnixConn, peer net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends[0].(*net.UnixConn), ends[1]
}
