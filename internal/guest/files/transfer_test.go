package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"

	"testing"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// random is content of which no part is like another.
func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func TestRead(t *testing.T) {
	r := newRig(t)
	for _, size := range []int{0, 1, 1000, wholeBytes, wholeBytes + 1, 1_000_000} {
		want := random(size)
		r.file("f", string(want), 0o644)
		c := r.ok(readAll("f"), nil)
		if e := c.entry(t); e.Size != uint64(size) || !bytes.Equal(c.data.Bytes(), want) {
			t.Errorf("%d bytes and %v, want %d", c.data.Len(), e, size)
		}
		for _, span := range [][2]int{{0, 0}, {0, size}, {size / 3, size / 2}, {size, 10}, {0, size * 5}, {size / 2, 1 << 60}} {
			from, to := span[0], min(span[0]+span[1], size)
			c := r.ok(read("f", uint64(from), uint64(span[1]), false), nil)
			if e := c.entry(t); e.Size != uint64(size) || !bytes.Equal(c.data.Bytes(), want[from:to]) {
				t.Errorf("%v of %d: %d bytes", span, size, c.data.Len())
			}
		}
		r.fails(read("f", uint64(size)+1, 1, false), nil, space.CodeRange, "offset")
		r.fails(read("f", 1<<64-1, 1<<64-1, false), nil, space.CodeRange, "offset")
	}
	r.link("f", "link")
	if e := r.ok(readAll("link"), nil).entry(t); e.Type != "file" {
		t.Errorf("%v", e)
	}
}

func TestReadNeverWaits(t *testing.T) {
	r := newRig(t)
	r.fifo("pipe")
	l, err := net.Listen("unix", r.path("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r.link("loop", "loop")
	r.link("pipe", "link")
	for p, code := range map[string]space.Code{
		"pipe": space.CodeConflict, "socket": space.CodeConflict, "link": space.CodeConflict, "/dev/zero": space.CodeConflict,
		"/dev/tty": space.CodeConflict, ".": space.CodeConflict, "loop": space.CodeConflict, "none": space.CodeNotFound,
	} {
		r.fails(readAll(p), nil, code, "")
	}
	if c := r.ok(readAll("/proc/self/status"), nil); c.data.Len() == 0 || c.entry(t).Size != uint64(c.data.Len()) {
		t.Errorf("%d bytes, %v", c.data.Len(), c.answers)
	}
	if c := r.ok(readAll("/sys/kernel/mm/transparent_hugepage/enabled"), nil); c.data.Len() == 0 || c.entry(t).Size != uint64(c.data.Len()) {
		t.Errorf("%d bytes, %v", c.data.Len(), c.answers)
	}
	if !isRoot() {
		r.fails(readAll("/etc/shadow"), nil, space.CodeForbidden, "")
		return
	}
	root := r.as("root")
	for _, p := range []string{"/proc/kcore", "/proc/kmsg", "/proc/self/mem"} { // whatever they say, they say it at once
		if _, err := root.do(readAll(p), nil); err == nil && p != "/proc/kmsg" {
			t.Errorf("read all of %s", p)
		}
	}
	r.fails(readAll("/proc/self/environ"), nil, space.CodeForbidden, "")
	r.fails(readAll("/proc/1/environ"), nil, space.CodeForbidden, "")
	r.fails(readAll("/etc/shadow"), nil, space.CodeForbidden, "")
}

// TestReadOfWhatChanges: a file that grows is read as long as it was; one that shrinks is an error.
func TestReadOfWhatChanges(t *testing.T) {
	r := newRig(t)
	p := r.file("f", string(random(1<<20)), 0o666)
	for name, c := range map[string]struct {
		size int64
		ok   bool
	}{"grows": {2 << 20, true}, "shrinks": {1 << 19, false}} {
		os.Truncate(p, 1<<20)
		once := false
		conv := &talk{onSend: func(m *sandboxv1.CallResponse) {
			if m.GetData() != nil && !once {
				once = true
				os.Truncate(p, c.size)
			}
		}}
		err := r.on(conv, readAll("f"))
		if (err == nil) != c.ok || err != nil && space.CodeOf(err) != space.CodeConflict {
			t.Errorf("%s: %v", name, err)
		}
		if c.ok && conv.data.Len() != 1<<20 {
			t.Errorf("%s: %d bytes", name, conv.data.Len())
		}
	}
}

func TestWrite(t *testing.T) {
	r := newRig(t)
	for _, size := range []int{0, 1, 32 << 10, 3_000_001} {
		want := random(size)
		e := r.ok(write("new/dir/f"), want).entry(t)
		if e.Created != (size == 0) {
			t.Errorf("%v after %d bytes", e, size)
		}
		if e.Size != uint64(size) || e.Owner != "dev" || e.Mode != fileMode || e.Path != r.path("new/dir/f") || mustRead(t, e.Path) != string(want) {
			t.Errorf("%v after %d bytes", e, size)
		}
	}
	if e := r.ok(write("with mode", 0o4711), nil).entry(t); e.Mode != 0o4711 {
		t.Errorf("%v", e)
	}
	if got := names(t, r.path("new/dir")); !reflect.DeepEqual(got, []string{"f"}) {
		t.Errorf("%q is there", got)
	}
	r.ok(makeDirectory("d"), nil)
	r.fifo("pipe")
	r.fails(write("d"), nil, space.CodeConflict, "")
	r.fails(write("/"), nil, space.CodeConflict, "")
	r.fails(write("pipe"), nil, space.CodeConflict, "")
	r.fails(write("with mode/x"), nil, space.CodeConflict, "")
	r.fails(write("x", 0o10000), nil, space.CodeInvalid, "mode")
	r.fails(write("/etc/passwd"), []byte("x"), space.CodeForbidden, "")
	r.fails(write("/etc/new"), []byte("x"), space.CodeForbidden, "")
	r.fails(write("/proc/version"), []byte("x"), space.CodeForbidden, "")
	r.fails(write("/dev/null"), []byte("x"), space.CodeConflict, "")
}

func TestWriteFollowsLinks(t *testing.T) {
	r := newRig(t)
	r.file("real/f", "old", 0o640)
	r.link("real", "dir")
	r.link("../real/f", "links/absolute?")
	r.link("../dir/../links/absolute?", "links/chain")
	r.link("fresh/file", "dangling")
	r.link("loop", "loop")
	for _, name := range []string{"links/absolute?", "links/chain", "dir/f"} {
		want := string(random(10))
		if e := r.ok(write(name), []byte(want)).entry(t); e.Mode != 0o640 || mustRead(t, r.path("real/f")) != want {
			t.Errorf("%v", e)
		}
	}
	if e := r.ok(stat("links/chain"), nil).entry(t); e.Type != "symlink" {
		t.Errorf("the link was replaced: %v", e)
	}
	r.ok(write("dangling"), []byte("x"))
	if mustRead(t, r.path("fresh/file")) != "x" {
		t.Error("what a link points to wasn't made")
	}
	r.fails(write("loop"), nil, space.CodeConflict, "")
}

// TestReplacedFileKeepsWhatItHad: mode and owner.
func TestReplacedFileKeepsWhatItHad(t *testing.T) {
	r := newRig(t)
	r.file("f", "old", 0o600|os.ModeSetuid)
	if e := r.ok(write("f"), nil).entry(t); e.Mode != 0o600 {
		t.Errorf("%v", e)
	}
	if e := r.ok(write("f", 0o755), nil).entry(t); e.Mode != 0o755 {
		t.Errorf("%v", e)
	}
	if e := r.ok(write("f", 0), nil).entry(t); e.Mode != 0 {
		t.Errorf("%v", e)
	}
	if !isRoot() {
		return
	}
	root := r.as("root")
	if e := root.ok(write(r.path("f")), nil).entry(t); e.Owner != "dev" || e.Group != "dev" {
		t.Errorf("root took it: %v", e)
	}
	p := r.file("shared", "old", 0)
	if err := errors.Join(os.Chown(p, 1234, 5000), os.Chmod(p, 0o664|os.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	if e := r.ok(write("shared"), []byte("new")).entry(t); e.Uid != 1234 || e.Group != "team" || e.Mode != 0o664 {
		t.Errorf("another's: %v", e)
	}
	r.fails(write("shared", 0o4755), nil, space.CodeForbidden, "")
	os.Chmod(p, 0o604)
	r.fails(write("shared"), nil, space.CodeForbidden, "") // though the directory is the user's
	// The user's file of a group that the user isn't in: its mode is what the kernel allows.
	p = r.file("foreign", "old", 0)
	if err := errors.Join(os.Chown(p, userID, 42), os.Chmod(p, 0o644)); err != nil {
		t.Fatal(err)
	}
	if e := r.ok(write("foreign", 0o2755), nil).entry(t); e.Gid != 42 || e.Mode != 0o755 {
		t.Errorf("the user has made a program of a foreign group: %v", e)
	}
}

func TestBrokenUploadLeavesNothing(t *testing.T) {
	r := newRig(t)
	r.file("kept", "old", 0o644)
	for _, name := range []string{"kept", "new", "a/b/c"} {
		c := &talk{upload: chunks(random(100_000)), broken: true}
		if err := r.on(c, write(name)); !errors.Is(err, errBroken) {
			t.Errorf("%v", err)
		}
	}
	if got := names(t, r.dir); !reflect.DeepEqual(got, []string{"kept"}) || mustRead(t, r.path("kept")) != "old" {
		t.Errorf("%q is there", got)
	}
}

func TestUploadsAreInvisible(t *testing.T) {
	r := newRig(t)
	c := &hooked{talk: talk{upload: chunks(random(100_000))}}
	c.before = func() {
		if got, _ := r.listed(r.ok(list(".", 1), nil)); len(got) != 0 {
			t.Errorf("%q is listed", got)
		}
		if data := r.ok(readArchive("."), nil).data.Len(); data > 1024 {
			t.Errorf("it's in an archive of %d bytes", data)
		}
		if len(names(t, r.dir)) != 1 {
			t.Error("no upload is there at all")
		}
	}
	if err := r.s.Do(r.ctx, &sandboxv1.Action{User: r.user, Action: write("f").Action}, c); err != nil {
		t.Fatal(err)
	}
}

// TestRunningProgramIsReplaced: what runs goes on with what it was.
func TestRunningProgramIsReplaced(t *testing.T) {
	r := newRig(t)
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	p := r.file("sleep", string(sleep), 0o755)
	cmd := exec.Command(p, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	if e := r.ok(write("sleep"), []byte("new")).entry(t); e.Mode != 0o755 || mustRead(t, p) != "new" {
		t.Errorf("%v", e)
	}
}

// TestFullDisk: a disk that is too full is told before the bytes come, and when they come.
func TestFullDisk(t *testing.T) {
	if !isRoot() {
		return
	}
	r := newRig(t)
	disk := r.path("disk")
	if err := os.Mkdir(disk, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", disk, "tmpfs", 0, "size=1m,mode=0777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	hinted := &sandboxv1.Action{Action: &sandboxv1.Action_Write{Write: &sandboxv1.Write{Path: "disk/f", SizeHint: 2 << 20}}}
	c := &talk{upload: chunks(random(1 << 10))}
	if err := r.on(c, hinted); space.CodeOf(err) != space.CodeGuest || len(c.upload) != 1 {
		t.Errorf("%v, %d chunks weren't received", err, len(c.upload))
	}
	_, err := r.do(write("disk/f"), random(2<<20))
	if space.CodeOf(err) != space.CodeGuest || !strings.Contains(err.Error(), "disk is full") {
		t.Error(err)
	}
	if got := names(t, disk); len(got) != 0 {
		t.Errorf("%q is left", got)
	}
}

// TestHintIsOnlyAHint: a file has the bytes that came, and no room of others.
func TestHintIsOnlyAHint(t *testing.T) {
	r := newRig(t)
	for _, hint := range []uint64{1, 10 << 20} {
		a := &sandboxv1.Action{Action: &sandboxv1.Action_Write{Write: &sandboxv1.Write{Path: "f", SizeHint: hint}}}
		r.ok(a, random(100_000))
		var st unix.Stat_t
		if err := unix.Stat(r.path("f"), &st); err != nil || st.Size != 100_000 || st.Blocks*512 > 200_000 {
			t.Errorf("%d bytes in %d blocks, %v", st.Size, st.Blocks, err)
		}
	}
}

// TestCallsAreBounded: those that are too many wait, and watches are refused.
func TestCallsAreBounded(t *testing.T) {
	r := newRig(t)
	release := make(chan struct{})
	ended := make(chan error)
	for i := range MaxTransfers + 1 {
		go func() {
			ended <- r.s.Do(r.ctx, &sandboxv1.Action{User: r.user, Action: write(fmt.Sprint(i)).Action}, &hooked{before: func() { <-release }})
		}()
	}
	for len(r.s.transfers) < MaxTransfers {
		if r.ctx.Err() != nil {
			t.Fatal("they don't begin")
		}
	}
	r.ok(stat("."), nil) // another kind doesn't wait
	close(release)
	for range MaxTransfers + 1 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if got := names(t, r.dir); len(got) != MaxTransfers+1 {
		t.Errorf("%d files", len(got))
	}
}

// FuzzActions: whatever is asked, the answer is a code and nothing breaks.
func FuzzActions(f *testing.F) {
	r := newRig(f)
	r.file("a/b", "content", 0o644)
	f.Add(uint8(0), "a/b", "c", uint64(1), uint64(2), uint32(0o644))
	f.Add(uint8(6), "../../etc/passwd", "/proc/self/mem", uint64(1<<63), uint64(1<<64-1), uint32(1<<31))
	f.Fuzz(func(t *testing.T, kind uint8, p, q string, x, y uint64, m uint32) {
		for _, s := range []string{p, q} {
			if strings.HasPrefix(filepath.Clean("/"+s), "/dev") || len(s) > 5000 {
				return
			}
		}
		actions := []*sandboxv1.Action{
			stat(p), list(p, m), makeDirectory(r.path("x/"+p), m), rename(p, r.path(q)), remove(r.path("x/"+p), m%2 == 0),
			changed(&sandboxv1.Change{Path: r.path("x/" + p), Mode: &m, Owner: q, Recursive: x%2 == 0}), read(p, x, y, m%2 == 0),
			write(r.path("x/"+p), m), readArchive(r.path(p)), writeArchive(r.path("x/" + p)), {User: q},
		}
		_, err := r.do(actions[int(kind)%len(actions)], []byte(q))
		if err != nil && (space.CodeOf(err) == space.CodeInternal || space.CodeOf(err).HTTPStatus() == 500) {
			t.Fatalf("%v: %v", actions[int(kind)%len(actions)], err)
		}
	})
}

// hooked is a talk that does something before each Receive.
type hooked struct {
	talk
	before func()
}

func (c *hooked) Receive(ctx context.Context) ([]byte, bool, error) {
	c.before()
	return c.talk.Receive(ctx)
}
