package pgtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// startTimeout bounds initdb and the start of the server on a busy machine.
	startTimeout = 2 * time.Minute
	// stopTimeout is how long a server may take to stop before it's killed.
	stopTimeout = 20 * time.Second
	// defaultPort is PostgreSQL's own, which names the socket as well.
	defaultPort = 5432
	// superuser owns the cluster.
	superuser = "space"
	// dirPrefix begins the name of a server's directory, which goes on with the pid of the test binary.
	dirPrefix = "space-pgtest-"
	// memory is where Linux has a file system in memory for everybody.
	memory = "/dev/shm"
	// memoryRoom is what it must have free: some ten servers' data. Containers often have much less.
	memoryRoom = 1 << 30
)

// place is the directory in which servers are made: in memory if there is room. A test makes a thousand small files and removes them, and
// on a disk the checkpoints of that take seconds. The server doesn't know: it runs with production's settings, and syncs.
func place() string {
	var s unix.Statfs_t
	if err := unix.Statfs(memory, &s); err == nil && s.Type == unix.TMPFS_MAGIC && s.Bavail*uint64(s.Bsize) >= memoryRoom {
		return memory
	}
	return os.TempDir()
}

// server is a private PostgreSQL. It listens on a unix socket, where everybody is trusted, and on loopback if it has a port, where a
// password is needed.
type server struct {
	dir    string
	port   int // 0: no network
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone
}

// start makes a cluster in a new directory and runs it as an unprivileged user: PostgreSQL refuses root.
func start(name string, port int) (*server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	cred, err := credential()
	if err != nil {
		return nil, err
	}
	removeOrphans()
	dir := filepath.Join(place(), dirPrefix+strconv.Itoa(os.Getpid())+name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	s := &server{dir: dir, port: port, exited: make(chan struct{})}
	if err := s.run(bin, cred); err != nil {
		s.stop()
		return nil, fmt.Errorf("start a PostgreSQL for tests: %w", err)
	}
	return s, nil
}

func (s *server) run(bin string, cred *syscall.Credential) error {
	if cred != nil {
		if err := os.Chown(s.dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
	}
	secret := filepath.Join(s.dir, "secret") // nobody's: the superuser comes over the socket
	if err := os.WriteFile(secret, []byte(rand.Text()+"\n"), 0o644); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata", s.data(), "--username", superuser, "--auth-local", "trust",
		"--auth-host", "scram-sha-256", "--pwfile", secret, "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-instructions")
	initdb.Dir, initdb.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: cred}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s.serve(bin, cred)
}

// serve starts the server from a thread that lives as long as it does, because the death signal belongs to the thread: a test binary
// that is killed leaves no server.
func (s *server) serve(bin string, cred *syscall.Credential) error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), "-D", s.data(), "-k", s.dir, "-c", "max_connections=100",
		"-c", "shared_buffers=32MB", "-c", "min_wal_size=32MB", "-c", "max_wal_size=128MB", "-c", "listen_addresses="+s.addresses(), "-c", fmt.Sprintf("port=%d", cmp.Or(s.port, defaultPort)))
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Pdeathsig: syscall.SIGQUIT}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // how it ended is in its log
			close(s.exited)
		}
	}()
	return <-started
}

func (s *server) addresses() string {
	if s.port == 0 {
		return ""
	}
	return "127.0.0.1"
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

// url names a database of the server.
func (s *server) url(database string) string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", s.dir, cmp.Or(s.port, defaultPort), superuser, database)
}

// stop ends the server and removes all it had.
func (s *server) stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGINT) // fast shutdown; it may be gone already
		select {
		case <-s.exited:
		case <-time.After(stopTimeout):
			_ = s.cmd.Process.Kill()
			<-s.exited
		}
	}
	os.RemoveAll(s.dir)
}

// programs is the folder of the newest PostgreSQL that is installed.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.New("no PostgreSQL under /usr/lib/postgresql: install the package postgresql")
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // a folder with another name comes last
	return n
}

// credential is the user that the server runs as; nil if that is the current one.
func credential() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("neither a user postgres nor nobody exists to run PostgreSQL as")
}

// removeOrphans removes the directories of test binaries that were killed.
func removeOrphans() {
	inMemory, _ := filepath.Glob(filepath.Join(memory, dirPrefix+"*")) // the patterns are well-formed
	onDisk, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range append(inMemory, onDisk...) {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		pid, err := strconv.Atoi(number)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			os.RemoveAll(dir)
		}
	}
}
