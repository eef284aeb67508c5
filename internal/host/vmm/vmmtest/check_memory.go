package vmmtest

import (
	"path/filepath"
	"testing"
	"time"
)

// checkOwnMemory boots a machine whose memory is in no file of the caller's, and makes a snapshot of it all the same.
func checkOwnMemory(t *testing.T, s *suite) {
	e, _ := s.enclosure(t)
	dir := s.place(t)
	b := s.bootSpec(t, dir, e.UID)
	b.Memory = ""
	m, err := s.Driver.Boot(s.within(t), e, b)
	if err != nil {
		t.Fatal(err)
	}
	g := s.guest(t, m, e, dir, b.Disk, "")
	g.greet(true)
	g.sh("echo own >/root/file; head -c 4000000 /dev/urandom >/run/memory")
	want := g.sh("md5sum </run/memory")
	g.pause()
	state, memory := create(t, filepath.Join(dir, "state")), create(t, filepath.Join(dir, "saved"))
	defer state.Close()
	defer memory.Close()
	if _, err := Save(s.within(t), g, state, nil); err == nil {
		t.Error("it was saved without its memory")
	}
	manifest, err := Save(s.within(t), g, state, memory)
	if err != nil {
		t.Fatal(err)
	}
	snap := snapshot{state: state.Name(), memory: memory.Name(), disk: filepath.Join(dir, "saved-disk"), manifest: manifest, saved: time.Now()}
	if err := Clone(b.Disk, snap.disk, 0); err != nil {
		t.Fatal(err)
	}
	if out := s.load(t, snap).sh("cat /root/file; md5sum </run/memory"); out != "own\n"+want {
		t.Errorf("the clone has %q, want own and %s", out, want)
	}
}
