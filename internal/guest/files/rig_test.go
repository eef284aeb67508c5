package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/guest/account"
)

// testLimit bounds everything that waits.
const testLimit = 60 * time.Second

// The user of the tests, who is in no file of this machine.
const userID, groupID = 4242, 4343

// rig is a service and a directory for it that belongs to the user.
type rig struct {
	t    testing.TB
	ctx  context.Context
	s    *Service
	dir  string // is the user's home
	user string // as whom it calls
}

// newRig makes one. An agent that isn't root calls as itself.
func newRig(t testing.TB) *rig { return newRigIn(t, "/tmp") }

func newRigIn(t testing.TB, parent string) *rig {
	dir, err := os.MkdirTemp(parent, "files")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(func() { cancel(); os.RemoveAll(dir) })
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = userID, groupID
	}
	etc, home := filepath.Join(dir, "etc"), filepath.Join(dir, "home")
	for _, d := range []string{etc, home} {
		if err := errors.Join(os.Mkdir(d, 0o755), os.Chown(d, uid, gid)); err != nil {
			t.Fatal(err)
		}
	}
	os.Chmod(dir, 0o755)
	passwd := fmt.Sprintf("root:x:0:0::/root:/bin/sh\ndev:x:%d:%d::%s:/bin/sh\n", uid, gid, home)
	group := fmt.Sprintf("root:x:0:\ndev:x:%d:\nteam:x:5000:dev\n", gid)
	for name, content := range map[string]string{"passwd": passwd, "group": group} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &rig{t: t, ctx: ctx, s: NewService(account.Files{Etc: etc}), dir: home, user: "dev"}
}

// as is the same rig for another user.
func (r *rig) as(user string) *rig {
	other := *r
	other.user = user
	return &other
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

// file makes a file of the user's.
func (r *rig) file(name, content string, mode os.FileMode) string {
	r.t.Helper()
	p := r.path(name)
	r.parents(p)
	if err := errors.Join(os.WriteFile(p, []byte(content), 0o600), r.own(p), os.Chmod(p, mode)); err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *rig) parents(p string) {
	for d := filepath.Dir(p); d != r.dir && len(d) > len(r.dir); d = filepath.Dir(d) {
		defer func() {
			if err := os.Mkdir(d, 0o755); err == nil {
				r.own(d)
			}
		}()
	}
}

func (r *rig) own(p string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(p, userID, groupID)
}

func (r *rig) link(target, name string) string {
	r.t.Helper()
	p := r.path(name)
	r.parents(p)
	if err := errors.Join(os.Symlink(target, p), r.own(p)); err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *rig) fifo(name string) string {
	r.t.Helper()
	p := r.path(name)
	if err := errors.Join(syscall.Mkfifo(p, 0o666), r.own(p)); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// talk is a conversation whose upload is known, and whose answers are kept.
type talk struct {
	upload  [][]byte
	broken  bool // the upload has no end
	answers []*sandboxv1.CallResponse
	data    bytes.Buffer
	onSend  func(*sandboxv1.CallResponse) // is told of each answer
}

var errBroken = errors.New("broken off")

func (c *talk) Receive(ctx context.Context) ([]byte, bool, error) {
	if len(c.upload) == 0 {
		if c.broken {
			return nil, false, errBroken
		}
		return nil, true, nil
	}
	b := c.upload[0]
	c.upload = c.upload[1:]
	return b, false, ctx.Err()
}

func (c *talk) Send(ctx context.Context, m *sandboxv1.CallResponse) error {
	if d := m.GetData(); d != nil {
		if len(d) > 32<<10 {
			return fmt.Errorf("%d bytes in one message", len(d))
		}
		c.data.Write(d)
	} else {
		c.answers = append(c.answers, m)
	}
	if c.onSend != nil {
		c.onSend(m)
	}
	return ctx.Err()
}

// chunks cuts an upload.
func chunks(b []byte) [][]byte {
	var out [][]byte
	for len(b) > 0 {
		n := min(len(b), 32<<10)
		out = append(out, b[:n])
		b = b[n:]
	}
	return out
}

// do makes a call.
func (r *rig) do(a *sandboxv1.Action, upload []byte) (*talk, error) {
	c := &talk{upload: chunks(upload)}
	return c, r.on(c, a)
}

func (r *rig) on(c *talk, a *sandboxv1.Action) error {
	a.User = r.user
	return r.s.Do(r.ctx, a, c)
}

// ok makes a call that must succeed.
func (r *rig) ok(a *sandboxv1.Action, upload []byte) *talk {
	r.t.Helper()
	c, err := r.do(a, upload)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// fails makes a call that must fail in a way.
func (r *rig) fails(a *sandboxv1.Action, upload []byte, code space.Code, field string) {
	r.t.Helper()
	_, err := r.do(a, upload)
	var e *space.Error
	if !errors.As(err, &e) || e.Code != code || e.Field != field {
		r.t.Errorf("%v: %v, want %s of %q", a, err, code, field)
	}
}

// entry is the only answer of a call.
func (c *talk) entry(t testing.TB) *sandboxv1.Entry {
	t.Helper()
	if len(c.answers) != 1 || c.answers[0].GetEntry() == nil {
		t.Fatalf("%v, want an entry", c.answers)
	}
	return c.answers[0].GetEntry()
}

func mustRead(t testing.TB, p string) string {
	t.Helper()
	b, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// names lists a directory.
func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// unprivileged is set in the test that runs all others again as somebody who isn't root.
const unprivileged = "SPACE_TEST_UNPRIVILEGED"

// TestAsSomebodyElse runs these tests again with an agent that isn't root.
func TestAsSomebodyElse(t *testing.T) {
	if os.Getenv(unprivileged) != "" || os.Geteuid() != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	defer cancel()
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "files")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	copied := filepath.Join(dir, "test")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(copied, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, copied, "-test.short")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), unprivileged+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// isRoot reports whether the agent under test is root.
func isRoot() bool { return os.Geteuid() == 0 }
