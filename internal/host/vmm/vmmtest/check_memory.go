package vmmtest

import (
	"path/filepath"
	"testing"
)

// checkOwnMemory boots a machine whose memory is in no file of the caller's, and makes snapshots of it all the same.
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
	state := create(t, filepath.Join(dir, "state"))
	defer state.Close()
	if _, err := Save(s.within(t), g, state, nil); err == nil {
		t.Error("it was saved without its memory")
	}
	first := g.keep(s.place(t))
	g.goOn()
	g.sh("echo later >/root/file; head -c 1000000 /dev/urandom >/run/more; sync")
	more := g.sh("md5sum </run/more")
	second := g.saveOver(first, s.place(t))
	if out := s.load(t, first).sh("cat /root/file; md5sum </run/memory"); out != "own\n"+want {
		t.Errorf("the clone has %q, want own and %s", out, want)
	}
	if out := s.load(t, second).sh("cat /root/file; md5sum </run/memory; md5sum </run/more"); out != "later\n"+want+"\n"+more {
		t.Errorf("a clone of what was saved over it has %q, want later, %s and %s", out, want, more)
	}
}
