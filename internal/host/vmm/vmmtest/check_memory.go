package vmmtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// checkOverhead has a guest run many programs, and holds what the machine's process takes then, beside the guest's memory, to what the driver says that it takes at most. Code is
// translated once for each place in memory that it's at: copies of one program are as good as many programs.
func checkOverhead(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	const programs = 6
	for n := range programs {
		g.sh(fmt.Sprintf(`cp /bin/busybox /run/b%[1]d && cd /run && b="./b%[1]d"
$b ls -lR /etc | $b sort -r | $b sed 's/r/x/g; s/[0-9]*$//' | $b awk '{ s += length($1) * sin(s) } END { print s }' | $b md5sum
$b head -c 20000 /bin/busybox | $b gzip | $b gunzip | $b sha512sum; $b seq 200 | $b tr 0-9 a-j | $b cut -c 1-2 | $b uniq -c | $b sha256sum
$b find /etc | $b tar cf - -T - | $b tar tf - | $b wc; $b ps; $b df; $b stat /; $b date; $b diff /etc/passwd /etc/group; $b expr 3 \* 4; $b bc </dev/null; $b vi -c q </dev/null
rm b%[1]d`, n))
	}
	beside, most := memoryBeside(t, g.Handle().PID, s.Shape.MemoryBytes), s.Driver.Capabilities().OverheadBytes
	t.Logf("its process takes %d KiB beside the guest's memory, of %d at most", beside>>10, most>>10)
	if beside > most {
		t.Errorf("a busy machine takes %d bytes beside its guest's memory, and the driver says %d at most", beside, most)
	}
}

// memoryBeside is how many bytes a process has for itself, beside a mapping that is as large as a guest's memory.
func memoryBeside(t *testing.T, pid int, guest int64) (bytes int64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		t.Fatal(err)
	}
	var from, to, kib uint64
	for line := range strings.Lines(string(b)) {
		switch key, rest, _ := strings.Cut(line, " "); key {
		case "Private_Clean:", "Private_Dirty:":
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				t.Fatal(err)
			}
			if to-from < uint64(guest) {
				bytes += int64(kib << 10)
			}
		default:
			if !strings.HasSuffix(key, ":") {
				if _, err := fmt.Sscanf(key, "%x-%x", &from, &to); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return bytes
}
