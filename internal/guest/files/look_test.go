package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

func TestPaths(t *testing.T) {
	r := newRig(t)
	r.file("a", "x", 0o644)
	for _, p := range []string{"a", "./a", "b/../a", r.path("a"), r.path("a") + "/", "///" + r.path("a")} {
		if e := r.ok(stat(p), nil).entry(t); e.Path != r.path("a") {
			t.Errorf("%q is %q", p, e.Path)
		}
	}
	for _, p := range []string{"", "a\x00b", strings.Repeat("x", 256), strings.Repeat("x/", 3000), "\x00"} {
		r.fails(stat(p), nil, space.CodeInvalid, "path")
		r.fails(rename(p, "a"), nil, space.CodeInvalid, "from")
		r.fails(rename("a", p), nil, space.CodeInvalid, "to")
	}
	r.fails(stat("~/a"), nil, space.CodeNotFound, "")
	if e := r.ok(stat(strings.Repeat("../", 50)+"etc"), nil).entry(t); e.Path != "/etc" {
		t.Errorf("above the root is %q", e.Path)
	}
}

func TestUsers(t *testing.T) {
	r := newRig(t)
	r.as("nobody here").fails(stat("/"), nil, space.CodeInvalid, "user")
	if !isRoot() {
		r.as("root").fails(stat("/"), nil, space.CodeForbidden, "")
		return
	}
	r.as("root").ok(stat("/"), nil)
	r.as("4711").ok(stat("/"), nil) // without an entry
}

func TestStat(t *testing.T) {
	r := newRig(t)
	r.file("file", "12345", 0o751|os.ModeSetuid)
	r.link("file", "link")
	r.fifo("pipe")
	e := r.ok(stat("file"), nil).entry(t)
	info, err := os.Stat(r.path("file"))
	if err != nil {
		t.Fatal(err)
	}
	if e.Type != "file" || e.Size != 5 || e.Mode != 0o4751 || e.Owner != "dev" || e.Group != "dev" || !e.Modified.AsTime().Equal(info.ModTime()) {
		t.Errorf("%v", e)
	}
	if e := r.ok(stat("link"), nil).entry(t); e.Type != "symlink" || e.Target != "file" {
		t.Errorf("%v", e)
	}
	if e := r.ok(stat("pipe"), nil).entry(t); e.Type != "other" {
		t.Errorf("%v", e)
	}
	if e := r.ok(stat("."), nil).entry(t); e.Type != "directory" || e.Path != r.dir {
		t.Errorf("%v", e)
	}
	r.fails(stat("none"), nil, space.CodeNotFound, "")
	r.fails(stat("file/below"), nil, space.CodeConflict, "")
}

// listed are the paths of a list below the directory.
func (r *rig) listed(c *talk) (paths []string, truncated bool) {
	r.t.Helper()
	for i, a := range c.answers {
		for _, e := range a.GetEntries().GetEntries() {
			p, _ := filepath.Rel(r.dir, e.Path)
			paths = append(paths, p)
		}
		truncated = a.GetEntries().GetTruncated()
		if truncated && i != len(c.answers)-1 {
			r.t.Error("truncated before the end")
		}
	}
	return paths, truncated
}

func TestList(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"b", "a/x", "a/y/z", "a-", "ä", "a\xffb"} {
		r.file(name, "", 0o644)
	}
	r.link("/", "root") // isn't followed
	for depth, want := range map[uint32][]string{
		0: {"a", "a-", "a�b", "b", "root", "ä"},
		1: {"a", "a-", "a�b", "b", "root", "ä"},
		2: {"a", "a/x", "a/y", "a-", "a�b", "b", "root", "ä"},
		9: {"a", "a/x", "a/y", "a/y/z", "a-", "a�b", "b", "root", "ä"},
	} {
		if got, truncated := r.listed(r.ok(list(".", depth), nil)); !reflect.DeepEqual(got, want) || truncated {
			t.Errorf("depth %d: %q, want %q", depth, got, want)
		}
	}
	if got, _ := r.listed(r.ok(list("a/y/..", 1), nil)); len(got) != 2 {
		t.Errorf("%q", got)
	}
	if c := r.ok(list("a/y", 1), nil); len(c.answers) != 1 {
		t.Errorf("a list has %d messages", len(c.answers))
	}
	r.fails(list("b", 1), nil, space.CodeConflict, "")
	r.fails(list("none", 1), nil, space.CodeNotFound, "")
	r.fails(list(".", 2000), nil, space.CodeInvalid, "depth")
}

func TestLongListsAreCut(t *testing.T) {
	if !isRoot() {
		return // once is enough: it takes its time
	}
	r := newRigIn(t, "/dev/shm")
	dir := r.path("many")
	if err := errors.Join(os.Mkdir(dir, 0o755), r.own(dir)); err != nil {
		t.Fatal(err)
	}
	for i := range MaxEntries + 5 {
		if err := unix.Mknod(filepath.Join(dir, fmt.Sprint(i)), syscall.S_IFREG|0o644, 0); err != nil {
			t.Fatal(err)
		}
	}
	got, truncated := r.listed(r.ok(list("many", 1), nil))
	if len(got) != MaxEntries || !truncated {
		t.Errorf("%d entries, truncated %v", len(got), truncated)
	}
}

func TestListShowsWhatIsClosed(t *testing.T) {
	r := newRig(t)
	r.file("closed/secret", "", 0o644)
	os.Chmod(r.path("closed"), 0)
	if got, _ := r.listed(r.ok(list(".", 5), nil)); !reflect.DeepEqual(got, []string{"closed"}) {
		t.Errorf("%q", got)
	}
	r.fails(list("closed", 1), nil, space.CodeForbidden, "")
	os.Chmod(r.path("closed"), 0o700)
}

func TestMakeDirectory(t *testing.T) {
	r := newRig(t)
	if e := r.ok(makeDirectory("a/b/c", 0o2711), nil).entry(t); e.Type != "directory" || e.Mode != 0o2711 || e.Owner != "dev" {
		t.Errorf("%v", e)
	}
	if e := r.ok(stat("a/b"), nil).entry(t); e.Mode != directoryMode || e.Owner != "dev" {
		t.Errorf("%v", e)
	}
	if e := r.ok(makeDirectory("a/b/c", 0o700), nil).entry(t); e.Mode != 0o2711 {
		t.Errorf("an existing one was changed: %v", e)
	}
	if e := r.ok(makeDirectory("shut", 0), nil).entry(t); e.Mode != 0 {
		t.Errorf("%v", e)
	}
	r.file("file", "", 0o644)
	r.fails(makeDirectory("file"), nil, space.CodeConflict, "")
	r.fails(makeDirectory("file/x"), nil, space.CodeConflict, "")
	r.fails(makeDirectory("x", 0o10000), nil, space.CodeInvalid, "mode")
	r.fails(makeDirectory("/proc/nothing"), nil, space.CodeNotFound, "")
	r.link("a", "link")
	r.ok(makeDirectory("link/d"), nil)
	r.ok(stat("a/d"), nil)
}

func TestRename(t *testing.T) {
	r := newRig(t)
	r.file("a", "a", 0o644)
	r.file("b", "b", 0o644)
	if e := r.ok(rename("a", "b"), nil).entry(t); e.Path != r.path("b") || mustRead(t, r.path("b")) != "a" {
		t.Errorf("%v", e)
	}
	r.file("dir/x", "", 0o644)
	r.file("full/y", "", 0o644)
	r.fails(rename("a", "c"), nil, space.CodeNotFound, "")
	r.fails(rename("b", "none/c"), nil, space.CodeNotFound, "")
	r.fails(rename("b", "dir"), nil, space.CodeConflict, "")
	r.fails(rename("dir", "full"), nil, space.CodeConflict, "")
	r.fails(rename("dir", "dir/sub"), nil, space.CodeInvalid, "to")
	r.fails(rename("b", "/dev/shm/"+filepath.Base(filepath.Dir(r.dir))), nil, space.CodeConflict, "")
	r.ok(rename("dir", "other"), nil)
}

func TestRemove(t *testing.T) {
	r := newRig(t)
	outside := r.file("outside/kept", "", 0o644)
	r.file("tree/a/b/c", "", 0o644)
	r.link("../outside", "tree/a/out")
	r.fifo("tree/pipe")
	r.fails(remove("tree", false), nil, space.CodeConflict, "")
	r.ok(remove("tree/pipe", false), nil)
	r.ok(remove("tree", true), nil)
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	r.fails(remove("tree", true), nil, space.CodeNotFound, "")
	r.link("outside", "link")
	r.ok(remove("link", true), nil)
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	r.ok(makeDirectory("empty"), nil)
	r.ok(remove("empty", false), nil)
	r.fails(remove("/", true), nil, space.CodeInvalid, "path")
	r.fails(remove("/proc/self/status", false), nil, space.CodeForbidden, "")
	for i := range 600 {
		r.file(fmt.Sprintf("many/%d/%d", i%3, i), "", 0o644)
	}
	r.ok(remove("many", true), nil)
	if got := names(t, r.dir); !reflect.DeepEqual(got, []string{"outside"}) {
		t.Errorf("%q is left", got)
	}
}

func TestTreesTooDeepAreRefused(t *testing.T) {
	r := newRigIn(t, "/dev/shm")
	fd, err := unix.Open(r.dir, unix.O_DIRECTORY|unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 1100 {
		if err := unix.Mkdirat(fd, "d", 0o777); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Fchown(next, userID, groupID)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	if isRoot() {
		os.Chown(r.path("d"), userID, groupID)
	}
	r.fails(remove("d", true), nil, space.CodeTooLarge, "")
	mode := uint32(0o700)
	r.fails(changed(&sandboxv1.Change{Path: "d", Mode: &mode, Recursive: true}), nil, space.CodeTooLarge, "")
}

func TestChange(t *testing.T) {
	r := newRig(t)
	r.file("a/b", "", 0o644)
	r.link("b", "a/link")
	r.fifo("a/pipe")
	mode := func(m uint32) *uint32 { return &m }
	if e := r.ok(changed(&sandboxv1.Change{Path: "a/link", Mode: mode(0o4600)}), nil).entry(t); e.Type != "symlink" {
		t.Errorf("%v", e)
	}
	if e := r.ok(stat("a/b"), nil).entry(t); e.Mode != 0o4600 {
		t.Errorf("a link wasn't followed: %v", e)
	}
	r.ok(changed(&sandboxv1.Change{Path: "a", Mode: mode(0o750), Recursive: true}), nil)
	for _, name := range []string{"a", "a/b", "a/pipe"} {
		if e := r.ok(stat(name), nil).entry(t); e.Mode != 0o750 {
			t.Errorf("%v", e)
		}
	}
	r.ok(changed(&sandboxv1.Change{Path: "a", Mode: mode(0)}), nil)
	if e := r.ok(changed(&sandboxv1.Change{Path: "a", Mode: mode(0o700)}), nil).entry(t); e.Mode != 0o700 {
		t.Errorf("%v", e)
	}
	r.fails(changed(&sandboxv1.Change{Path: "a"}), nil, space.CodeInvalid, "mode")
	r.fails(changed(&sandboxv1.Change{Path: "a", Mode: mode(0o10000)}), nil, space.CodeInvalid, "mode")
	r.fails(changed(&sandboxv1.Change{Path: "a", Owner: "nobody here"}), nil, space.CodeInvalid, "owner")
	r.fails(changed(&sandboxv1.Change{Path: "a", Group: "-1"}), nil, space.CodeInvalid, "group")
	r.fails(changed(&sandboxv1.Change{Path: "a", Owner: "root"}), nil, space.CodeForbidden, "")
	r.fails(changed(&sandboxv1.Change{Path: "/etc/passwd", Mode: mode(0o666)}), nil, space.CodeForbidden, "")
	r.fails(changed(&sandboxv1.Change{Path: "none", Mode: mode(0o666)}), nil, space.CodeNotFound, "")
	if !isRoot() {
		return
	}
	if e := r.ok(changed(&sandboxv1.Change{Path: "a/b", Group: "team"}), nil).entry(t); e.Group != "team" {
		t.Errorf("%v", e)
	}
	root := r.as("root")
	root.link("/etc/passwd", "a/escape")
	root.ok(changed(&sandboxv1.Change{Path: r.path("a"), Owner: "1234", Group: "root", Mode: mode(0o4711), Recursive: true}), nil)
	for _, name := range []string{"a", "a/b", "a/pipe", "a/escape"} {
		if e := root.ok(stat(r.path(name)), nil).entry(t); e.Uid != 1234 || e.Group != "root" || e.Mode != 0o4711 && e.Type != "symlink" {
			t.Errorf("%v", e)
		}
	}
	if info, err := os.Stat("/etc/passwd"); err != nil || info.Mode() != 0o644 || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("a link led out: %v", info)
	}
}

// TestModeOnOldKernels: without the newest system call it's the same.
func TestModeOnOldKernels(t *testing.T) {
	r := newRig(t)
	p := r.file("a", "", 0)
	for _, root := range []bool{true, false} {
		if root && !isRoot() {
			continue
		}
		fd, err := unix.Open(p, unix.O_PATH, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		for _, mode := range []int{0o640, 0o4755} {
			if err := (change{mode: mode, root: root}).setModeByPath(fd, unix.AT_FDCWD, p); err != nil {
				t.Fatal(err)
			}
			if e := r.ok(stat("a"), nil).entry(t); e.Mode != uint32(mode) {
				t.Errorf("%v, want %o", e, mode)
			}
		}
	}
}
