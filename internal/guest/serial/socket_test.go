package serial

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestSocketBehavesLikeAPort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "port")
	s, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := make(chan string)
	go func() {
		defer close(got)
		b := make([]byte, 10)
		for {
			n, err := s.Read(b)
			if err != nil {
				return
			}
			got <- string(b[:n])
		}
	}()
	for _, msg := range []string{"first", "second"} { // each host leaves; the guest doesn't notice
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, msg)
		if g := <-got; g != msg {
			t.Errorf("read %q, want %q", g, msg)
		}
		s.Write([]byte("answer"))
		b := make([]byte, 6)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "answer" {
			t.Errorf("the host read %q, %v", b, err)
		}
		c.Close()
	}
	old, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(old, "old")
	<-got
	next, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if _, err := old.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the host that was replaced read %v, want EOF", err)
	}
	s.Close()
	if _, open := <-got; open {
		t.Error("read goes on after close")
	}
	if _, err := s.Write([]byte("x")); err == nil {
		t.Error("write goes on after close")
	}
}

func TestFindPortByName(t *testing.T) {
	class := t.TempDir()
	for port, name := range map[string]string{"vport0p0": "console\n", "vport1p1": PortName + "\n"} {
		dir := filepath.Join(class, port)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "name"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := find(class); got != "/dev/vport1p1" {
		t.Errorf("found %q", got)
	}
	if got := find(class + "/none"); got != "" {
		t.Errorf("without a driver found %q", got)
	}
	if _, err := openVirtio(class + "/none"); err == nil {
		t.Error("opened a port that isn't there")
	}
}
