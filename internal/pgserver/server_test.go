package pgserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// asServer, when set in the environment, makes the test binary be the server: PostgreSQL refuses to run as root.
const asServer = "SPACE_TEST_PGSERVER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asServer); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func server(dir string) (Server, error) {
	data := filepath.Join(dir, "data")
	bin, err := Binaries(Root, data)
	return Server{Bin: bin, Data: data, Sockets: dir, Admins: []string{"root"}, Owners: []string{"nobody"}}, err
}

func serve(dir string) error {
	s, err := server(dir)
	if err != nil {
		return err
	}
	if err := s.Ensure(context.Background()); err != nil {
		return err
	}
	return s.Exec()
}

// start runs a server in dir as the distribution's user until the test ends, or it's stopped.
func start(t *testing.T, dir string) (stop func()) {
	t.Helper()
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	self, err := os.Open("/proc/self/exe") // the path to it may be closed to the user, the file isn't
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	log := new(strings.Builder)
	c := exec.Command("/proc/self/fd/3")
	c.ExtraFiles = []*os.File{self}
	c.Env = []string{asServer + "=" + dir}
	c.Stdout, c.Stderr = log, log
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, Setsid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		c.Process.Signal(syscall.SIGINT)
		c.Wait()
		if t.Failed() {
			t.Log(log)
		}
	}
	t.Cleanup(stop)
	return stop
}

// connect waits until the server lets in.
func connect(t *testing.T, dir, role, database string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := pgx.Connect(ctx, fmt.Sprintf("host=%s user=%s dbname=%s", dir, role, database))
		if err == nil {
			t.Cleanup(func() { c.Close(context.Background()) })
			return c
		}
		select {
		case <-ctx.Done():
			t.Fatalf("connect: %v", err)
		case <-tick.C:
		}
	}
}

func TestServerIsDurablePrivateAndKeepsItsData(t *testing.T) {
	dir, err := os.MkdirTemp("", "pg") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	stop := start(t, dir)
	c := connect(t, dir, Database, Database)
	want := map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "data_checksums": "on",
		"listen_addresses": "", "server_encoding": "UTF8", "is_superuser": "off"}
	for name, value := range want {
		var got string
		if err := c.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got); err != nil || got != value {
			t.Errorf("%s is %q, %v; want %q", name, got, err, value)
		}
	}
	if _, err := c.Exec(t.Context(), "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)"); err != nil {
		t.Fatal(err)
	}
	connect(t, dir, superuser, "postgres")
	stop()

	start(t, dir)
	var n int
	if err := connect(t, dir, Database, Database).QueryRow(t.Context(), "SELECT n FROM kept").Scan(&n); err != nil || n != 7 {
		t.Errorf("after a restart: %d, %v; want 7", n, err)
	}
}

func TestOnlyNamedUsersComeIn(t *testing.T) {
	s := Server{Admins: []string{"root"}, Owners: []string{"space-demo-api"}}
	want := "# written anew at each start: map, system user, role\n" +
		"space \"root\" postgres\nspace \"root\" space\nspace \"space-demo-api\" space\n"
	if got := s.ident(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDataOfAnotherVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Server{Bin: "/usr/lib/postgresql/15/bin", Data: dir}.Ensure(t.Context())
	if err == nil || !strings.Contains(err.Error(), "install postgresql-9") {
		t.Errorf("got %v, want advice to install postgresql-9", err)
	}
}
