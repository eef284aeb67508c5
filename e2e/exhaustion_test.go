//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// clearly are the codes of errors with which a platform may refuse what it has no room for. Others, "internal" above all, tell nobody what to do.
var clearly = map[string]bool{"unavailable": true, "capacity_exhausted": true, "timeout": true}

// shortOf takes something away from the platform, tries what clients do meanwhile, gives it back, and holds that all goes on: each request was served or
// refused with a clear error, a sandbox that ran goes on running, what had been written is there, and no role but those that may has been replaced.
func shortOf(t *testing.T, c *client.Client, take func(*testing.T) (give func()), roles func() map[instance.Role]int, mayEnd ...instance.Role) (refused int) {
	t.Helper()
	s, err := c.CreateSandbox(t.Context(), client.SandboxCreate{Template: "mini"})
	if err != nil {
		t.Fatal(err)
	}
	verbatim(t, c, s, "echo kept > /root/file; sync", "")
	before := roles()
	give := take(t)
	made, refused := try(t, c, s)
	give()
	eventually(t, bootDeadline, "a sandbox is made again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), callDeadline)
		defer cancel()
		again, err := c.CreateSandbox(ctx, client.SandboxCreate{Template: "mini"})
		if err == nil {
			made = append(made, again.Id)
		}
		return err == nil
	})
	verbatim(t, c, s, "cat /root/file", "kept\n")
	for r, pid := range roles() {
		may := false
		for _, m := range mayEnd {
			may = may || m == r
		}
		if pid != before[r] && !may {
			t.Errorf("role %s was process %d and is %d", r, before[r], pid)
		}
	}
	for _, id := range append(made, s.Id) {
		if err := c.DeleteSandbox(t.Context(), id); err != nil {
			t.Errorf("delete sandbox %s: %v", id, err)
		}
	}
	return refused
}

// try does what clients do, some times over, and holds that each is served or refused clearly. It returns the sandboxes that it was given, and how many
// requests were refused.
func try(t *testing.T, c *client.Client, s client.Sandbox) (made []string, refused int) {
	t.Helper()
	for range 3 {
		for what, do := range map[string]func(ctx context.Context) error{
			"create a sandbox": func(ctx context.Context) error {
				o, err := c.BeginCreateSandbox(ctx, client.SandboxCreate{Template: "mini"})
				if err != nil {
					return err
				}
				made = append(made, o.Sandbox.Id)
				o, err = c.GetOperation(ctx, o.Id, 10*time.Second)
				if err == nil && o.Error != nil {
					refused++
					if !clearly[string(o.Error.Code)] {
						t.Errorf("the creation ends with %+v", o.Error)
					}
				}
				return err
			},
			"run a command": func(ctx context.Context) error {
				_, err := c.CreateSession(ctx, s.Id, client.SessionCreate{Shell: ptr("echo here")})
				return err
			},
			"get a sandbox": func(ctx context.Context) error { _, err := c.GetSandbox(ctx, s.Id); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), callDeadline)
			err := do(ctx)
			cancel()
			var problem *client.Error
			switch {
			case err == nil:
			case errors.As(err, &problem) && clearly[string(problem.Code)]:
				refused++
			case errors.As(err, &problem):
				t.Errorf("%s: %v", what, err)
			case ctx.Err() != nil:
				t.Errorf("%s: no answer within %s: %v", what, callDeadline, err)
			default: // the connection ends: the client's own retries have been in vain
				refused++
				t.Logf("%s: %v", what, err)
			}
		}
	}
	t.Logf("%d requests were refused", refused)
	return made, refused
}

// wantRefusals fails unless what was taken away was missed.
func wantRefusals(t *testing.T, refused int) {
	t.Helper()
	if refused == 0 {
		t.Error("nothing was refused, so nothing was short")
	}
}

// TestDatabaseConnectionsRunOut has others take all connections of PostgreSQL.
func TestDatabaseConnectionsRunOut(t *testing.T) {
	wantRefusals(t, shortOf(t, platform.client, func(t *testing.T) func() {
		address := fmt.Sprintf("host=%s user=space dbname=space", platform.instance.RoleRunDir(instance.Postgres))
		var open []*pgx.Conn
		take := func() {
			for len(open) < 1000 {
				c, err := pgx.Connect(t.Context(), address)
				if err != nil {
					return
				}
				open = append(open, c)
			}
		}
		eventually(t, callDeadline, "nobody else has a connection", func() bool {
			take()
			ours := make([]int32, len(open))
			for n, c := range open {
				ours[n] = int32(c.PgConn().PID())
			}
			others := 0
			err := open[0].QueryRow(t.Context(), "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'space' AND pid <> ALL ($1)", ours).Scan(&others)
			if err != nil {
				t.Fatal(err)
			}
			take()
			return others == 0
		})
		t.Logf("%d connections are taken", len(open))
		return func() {
			for _, c := range open {
				c.Close(context.WithoutCancel(t.Context()))
			}
		}
	}, func() map[instance.Role]int { return roles(t) }))
}

// TestDescriptorsRunOut lets no daemon open another file or connection, one daemon after the other: who connects anew waits, until there are some again.
func TestDescriptorsRunOut(t *testing.T) {
	for _, r := range []instance.Role{instance.API, instance.Edge, instance.NodeAPI, instance.Manager, instance.Host} {
		t.Run(string(r), func(t *testing.T) {
			shortOf(t, platform.client, func(t *testing.T) func() {
				pid := roles(t)[r]
				most, hard := fileLimits(t, pid)
				limitFiles(t, pid, 3, hard) // it has its own, and gets no more
				if err := answersAnew(t, r, shortAnswer); err == nil {
					t.Errorf("%s takes another connection", r)
				}
				return func() {
					limitFiles(t, pid, most, hard)
					if err := answersAnew(t, r, callDeadline); err != nil {
						t.Errorf("%s has descriptors again: %v", r, err)
					}
				}
			}, func() map[instance.Role]int { return roles(t) })
		})
	}
}

// shortAnswer is many times what a daemon takes to answer.
const shortAnswer = 2 * time.Second

// answersAnew asks a daemon something on a connection of its own.
func answersAnew(t *testing.T, r instance.Role, within time.Duration) error {
	t.Helper()
	port, ok := platform.instance.OpsPort(r)
	if !ok {
		t.Fatalf("role %s has no port of its own", r)
	}
	once := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: within}
	resp, err := once.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// fileLimits are how many files a process may have open, and how many it may set itself.
func fileLimits(t *testing.T, pid int) (most, hard uint64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if n, _ := fmt.Sscanf(line, "Max open files %d %d", &most, &hard); n == 2 {
			return most, hard
		}
	}
	t.Fatalf("no limit of open files in %s", b)
	return 0, 0
}

// limitFiles sets how many files a process may have open, as its user: root of a container may not do it to others.
func limitFiles(t *testing.T, pid int, most, hard uint64) {
	t.Helper()
	uid, _ := statusInt(pid, "Uid")
	gid, _ := statusInt(pid, "Gid")
	c := exec.Command("prlimit", "--pid", fmt.Sprint(pid), fmt.Sprintf("--nofile=%d:%d", most, hard))
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
}

// fill takes all room of a file system, and returns what gives it back.
func fill(t *testing.T, dir string) (give func()) {
	t.Helper()
	path := filepath.Join(dir, "filler.unreadable")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	give = func() { os.Remove(path) }
	t.Cleanup(give)
	at := int64(0)
	for step := int64(1 << 30); step >= 4096; {
		if err := unix.Fallocate(int(f.Fd()), 0, at, step); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			step /= 4
			continue
		}
		at += step
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MiB took all room of %s", at>>20, dir)
	return give
}

// TestVolumeRunsFull has no room for another disk.
func TestVolumeRunsFull(t *testing.T) {
	wantRefusals(t, shortOf(t, platform.client, func(t *testing.T) func() { return fill(t, platform.instance.Volume()) }, func() map[instance.Role]int { return roles(t) }))
}

// TestDataDiskRunsFull has no room for PostgreSQL, the node's records and logs. PostgreSQL ends itself when it can't write, and comes back.
func TestDataDiskRunsFull(t *testing.T) {
	p := newPowered(t)
	p.must(t, "template", "build", "mini")
	// Nothing needs be refused: PostgreSQL and the node's records have some room of their own.
	shortOf(t, p.client, func(t *testing.T) func() { return fill(t, p.instance.DataDir()) }, func() map[instance.Role]int { return rolesOf(t, p.instance) }, instance.Postgres)
}
