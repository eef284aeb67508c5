package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/guest/temporary"
)

// testLimit bounds everything that waits.
const testLimit = 60 * time.Second

// seen collects events.
type seen struct {
	t      *testing.T
	dir    string
	ended  chan error
	cancel context.CancelFunc
	slow   chan struct{} // not nil: each event waits for it

	mu      sync.Mutex
	events  []string
	arrived chan struct{}
}

// begin watches a new directory.
func begin(t *testing.T, recursive bool, prepare ...func(dir string)) *seen {
	t.Helper()
	s := &seen{t: t, dir: t.TempDir(), ended: make(chan error, 1), arrived: make(chan struct{}, 1)}
	for _, p := range prepare {
		p(s.dir)
	}
	s.watch(recursive)
	return s
}

func (s *seen) watch(recursive bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	s.cancel = cancel
	w, err := Open(s.dir, recursive, s.emit)
	if err != nil {
		s.t.Fatal(err)
	}
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		s.ended <- w.Run(ctx)
	}()
	s.t.Cleanup(func() { cancel(); <-ran; w.Close() })
}

func (s *seen) emit(e Event) error {
	if s.slow != nil {
		<-s.slow
	}
	s.mu.Lock()
	s.events = append(s.events, string(e.Kind)+" "+strings.TrimPrefix(strings.TrimPrefix(e.Path, s.dir), "/"))
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	return nil
}

// until waits for an event, and returns all until then.
func (s *seen) until(event string) []string {
	s.t.Helper()
	timer := time.NewTimer(testLimit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		events := slices.Clone(s.events)
		s.mu.Unlock()
		if i := slices.Index(events, event); i >= 0 {
			return events
		}
		select {
		case <-s.arrived:
		case err := <-s.ended:
			s.t.Fatalf("the watch has ended: %v; %q", err, events)
		case <-timer.C:
			s.t.Fatalf("no %q in %q", event, events)
		}
	}
}

// expect waits for exactly these.
func (s *seen) expect(want ...string) {
	s.t.Helper()
	s.path("end").make()
	got := s.until("create end")
	if want = append(want, "create end"); !reflect.DeepEqual(got, want) {
		s.t.Errorf("got  %q\nwant %q", got, want)
	}
}

// place is a path in the directory.
type place string

func (s *seen) path(name string) place { return place(filepath.Join(s.dir, name)) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (p place) make()           { must(unix.Mknod(string(p), unix.S_IFREG|0o644, 0)) }
func (p place) makeDir()        { must(os.Mkdir(string(p), 0o755)) }
func (p place) remove()         { must(os.Remove(string(p))) }
func (p place) rename(to place) { must(os.Rename(string(p), string(to))) }

// write writes without cutting the file first, which would be an event of its own.
func (p place) write(b string) {
	f, err := os.OpenFile(string(p), os.O_WRONLY|os.O_CREATE, 0o644)
	must(err)
	defer f.Close()
	_, err = f.WriteString(b)
	must(err)
}

func (p place) chmod(m os.FileMode) { must(os.Chmod(string(p), m)) }

func TestEventsOfADirectory(t *testing.T) {
	s := begin(t, false, func(dir string) { place(dir + "/old").make(); place(dir + "/sub").makeDir() })
	s.path("new").make()
	s.path("new").write("x")
	s.path("new").chmod(0o600)
	s.path("new").rename(s.path("moved"))
	s.path("moved").rename(s.path("sub/away"))
	s.path("sub/away").rename(s.path("back"))
	s.path("old").remove()
	s.path("sub/not seen").make()
	s.expect("create new", "write new", "chmod new", "rename new", "create moved", "rename moved", "create back", "remove old")
}

func TestEventsBelow(t *testing.T) {
	s := begin(t, true, func(dir string) { must(os.MkdirAll(dir+"/a/b/c", 0o755)) })
	s.path("a/b/c/f").make()
	s.path("a/d").makeDir()
	s.until("create a/d")
	s.path("a/d/f").make()
	s.until("create a/d/f")
	s.path("a").rename(s.path("z"))
	s.until("create z")
	s.path("z/b/c/g").make()
	s.path("z/d/g").make()
	s.path("z/b/c/f").remove()
	s.expect("create a/b/c/f", "create a/d", "create a/d/f", "rename a", "create z", "create z/b/c/g", "create z/d/g", "remove z/b/c/f")
}

func TestDirectoriesThatComeAndGo(t *testing.T) {
	outside := place(t.TempDir())
	must(os.MkdirAll(string(outside)+"/in/deep", 0o755))
	(outside + "/in/deep/f").make()
	s := begin(t, true, func(dir string) { must(os.MkdirAll(dir+"/out/deep", 0o755)) })
	(outside + "/in").rename(s.path("in"))
	s.until("create in/deep/f")
	s.path("in/deep/g").make()
	s.until("create in/deep/g")
	s.path("out").rename(outside + "/out")
	s.until("rename out")
	s.path("mark").make()
	s.until("create mark")
	(outside + "/out/deep/not seen").make()
	s.path("out").makeDir() // another
	s.until("create out")
	s.path("out/f").make()
	s.expect("create in", "create in/deep", "create in/deep/f", "create in/deep/g", "rename out", "create mark", "create out", "create out/f")
}

// TestUploadsAreWrites: an upload is told as what writing the file in its place would have told.
func TestUploadsAreWrites(t *testing.T) {
	s := begin(t, true, func(dir string) { place(dir + "/old").make() })
	for name, replaces := range map[string]bool{"new": false, "old": true} {
		temp := s.path(temporary.Name(replaces))
		temp.write("content")
		temp.chmod(0o600)
		temp.rename(s.path(name))
		s.until("write " + name)
	}
	broken := s.path(temporary.Name(false))
	broken.write("x")
	broken.remove()
	got := strings.Join(s.until("write new"), ", ")
	if !strings.Contains(got, "create new, chmod new, write new") || strings.Contains(got, "create old") || strings.Contains(got, "upload") {
		t.Error(got)
	}
}

// TestAnUploadMayBeReadInTwo: the kernel tells a move as two events, and what reads them may come in between.
func TestAnUploadMayBeReadInTwo(t *testing.T) {
	var got []string
	w, err := Open(t.TempDir(), false, func(e Event) error {
		got = append(got, string(e.Kind)+" "+filepath.Base(e.Path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for cookie, replaces := range []bool{true, false} {
		for _, n := range []notice{
			{wd: w.top, mask: unix.IN_MOVED_FROM, cookie: uint32(cookie), name: temporary.Name(replaces)},
			{wd: w.top, mask: unix.IN_MOVED_TO, cookie: uint32(cookie), name: "file"},
		} {
			if err := w.takeAll([]notice{n}); err != nil {
				t.Fatal(err)
			}
			w.drained()
		}
	}
	if want := []string{"write file", "create file", "chmod file", "write file"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	for cookie := range uint32(2*maxUploads + 1) {
		if err := w.take(notice{wd: w.top, mask: unix.IN_MOVED_FROM, cookie: cookie, name: temporary.Name(false)}); err != nil || len(w.uploads) > maxUploads {
			t.Fatalf("%d uploads are remembered, %v", len(w.uploads), err)
		}
	}
}

// TestNothingIsLost: 2,000 files in new directories, below each other, as fast as they can be made.
func TestNothingIsLost(t *testing.T) {
	t.Setenv("TMPDIR", "/dev/shm")
	s := begin(t, true)
	want := map[string]bool{}
	for i := range 100 {
		dir := fmt.Sprintf("%d/%d/%d/%d", i%5, i%7, i, i)
		must(os.MkdirAll(string(s.path(dir)), 0o755))
		for j := range 20 {
			name := fmt.Sprintf("%s/%d", dir, j)
			s.path(name).make()
			want["create "+name] = true
		}
		for d := dir; d != "."; d = filepath.Dir(d) {
			want["create "+d] = true
		}
	}
	s.path("end").make()
	got := map[string]int{}
	for _, e := range s.until("create end") {
		got[e]++
	}
	delete(got, "create end")
	for e := range want {
		if got[e] == 0 {
			t.Errorf("lost: %s", e)
		}
		delete(got, e)
	}
	for e := range got {
		t.Errorf("invented: %s", e)
	}
}

// TestMovedAtOnce: what is made in a directory that is moved as soon as it's there isn't lost.
func TestMovedAtOnce(t *testing.T) {
	s := begin(t, true)
	for i := range 200 {
		a, b := s.path(fmt.Sprint("a", i)), s.path(fmt.Sprint("b", i))
		must(os.MkdirAll(string(a)+"/deep", 0o755))
		a.rename(b)
		(b + "/deep/f").make()
	}
	for i := range 200 {
		s.until(fmt.Sprintf("create b%d/deep/f", i))
	}
	for i := range 200 {
		place(string(s.path(fmt.Sprintf("b%d/deep/g", i)))).make()
	}
	for i := range 200 {
		s.until(fmt.Sprintf("create b%d/deep/g", i))
	}
}

// TestOverflowIsTold: events that the kernel had to drop are told as lost, and everything is seen again from then on.
func TestOverflowIsTold(t *testing.T) {
	s := &seen{t: t, dir: t.TempDir(), ended: make(chan error, 1), arrived: make(chan struct{}, 1), slow: make(chan struct{})}
	s.watch(true)
	names := [2]place{s.path("a"), s.path("b")}
	names[0].make()
	names[1].make()
	for i := range 20_000 { // the kernel's queue has 16,384
		names[i%2].chmod(0o600)
	}
	s.path("fresh").makeDir() // its event is lost
	close(s.slow)
	s.until("overflow ")
	s.path("fresh/f").make()
	s.until("create fresh/f")
}

func TestRootThatGoes(t *testing.T) {
	for kind, act := range map[string]func(p place){
		"remove": place.remove,
		"rename": func(p place) { p.rename(p + "-moved") },
	} {
		s := begin(t, true)
		act(place(s.dir))
		err := <-s.ended
		if space.CodeOf(err) != space.CodeNotFound {
			t.Errorf("%s: %v", kind, err)
		}
		if s.events[len(s.events)-1] != kind+" " {
			t.Errorf("%s: %q", kind, s.events)
		}
		os.Remove(s.dir + "-moved")
	}
}

func TestWhatCanNotBeWatched(t *testing.T) {
	dir := t.TempDir()
	place(dir + "/f").make()
	for p, code := range map[string]space.Code{dir + "/none": space.CodeNotFound, dir + "/f": space.CodeConflict} {
		if _, err := Open(p, true, nil); space.CodeOf(err) != code {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	s := begin(t, false)
	s.cancel()
	if err := <-s.ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTheKernelsOwnAreLeftOut(t *testing.T) {
	s := begin(t, true, func(dir string) {
		place(dir + "/proc").makeDir()
		must(unix.Mount("proc", dir+"/proc", "proc", 0, ""))
		t.Cleanup(func() { unix.Unmount(dir+"/proc", unix.MNT_DETACH) })
	})
	s.expect()
}

func TestDirectoriesAreBounded(t *testing.T) {
	t.Setenv("TMPDIR", "/dev/shm")
	s := begin(t, true)
	for i := range MaxDirectories + 1 {
		s.path(fmt.Sprint(i)).makeDir()
	}
	err := <-s.ended
	if space.CodeOf(err) != space.CodeTooLarge || s.events[len(s.events)-1] != "overflow " {
		t.Errorf("%v, %q", err, s.events[len(s.events)-1])
	}
	if _, err := Open(s.dir, true, nil); space.CodeOf(err) != space.CodeTooLarge {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(make([]byte, 16))
	f.Add(append(make([]byte, 12), 4, 0, 0, 0, 'a', 0, 0, 0))
	f.Add(append(make([]byte, 12), 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, b []byte) {
		notices, _ := parse(b)
		if len(notices)*unix.SizeofInotifyEvent > len(b) {
			t.Fatalf("%d events in %d bytes", len(notices), len(b))
		}
	})
}
