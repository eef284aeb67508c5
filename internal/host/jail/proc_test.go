package jail_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/space-platform/space/internal/host/vmm"
)

// TestProcShowsOnlyItself looks at what a program with a /proc learns of the machine.
func TestProcShowsOnlyItself(t *testing.T) {
	j := setup(t)
	e := enclose(t, j, spec(77)) // a uid that no other test has: its orphans may wait for init to reap them
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := e.Starter.Start(t.Context(), vmm.Command{Path: "/usr/bin/ls", Args: []string{"-A", "/proc"}, Log: w, Proc: true})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer p.PIDFD.Close()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	processes := 0
	for _, name := range strings.Fields(string(out)) {
		switch {
		case strings.Trim(name, "0123456789") == "":
			processes++
		case name != "self" && name != "thread-self":
			t.Errorf("it sees /proc/%s", name)
		}
	}
	if processes != 1 {
		t.Errorf("it sees %d processes: %s", processes, out)
	}
}
