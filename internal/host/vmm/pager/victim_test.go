package pager

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The victim stands for the VMM: this test's own program in a process of its own, which has its memory from a pager and does what it's told on its
// standard input, a line each. Its faults are real ones.

const victimVariable = "SPACE_TEST_PAGER_VICTIM"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Subcommand {
		os.Exit(Main(os.Args[2:]))
	}
	if os.Getenv(confinedVariable) != "" {
		if err := beConfined(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if socket := os.Getenv(victimVariable); socket != "" {
		if err := beVictim(socket); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// gapPages lies between the two regions of the victim's memory.
const gapPages = 3

func beVictim(order string) error {
	var socket, sizes string
	if _, err := fmt.Sscanf(order, "%s %s", &socket, &sizes); err != nil {
		return err
	}
	var regions []region
	var memory [][]byte
	var u int
	if err := errors.Join(makeMemory(sizes, &regions, &memory), makeUffd(&u), register(u, regions)); err != nil {
		return err
	}
	text, err := json.Marshal(regions)
	if err != nil {
		return err
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	if _, _, err := c.WriteMsgUnix(text, unix.UnixRights(u), nil); err != nil {
		return err
	}
	fmt.Println("up")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(obey(lines.Text(), memory, c))
	}
	return lines.Err()
}

// makeMemory makes regions of so many pages.
func makeMemory(sizes string, regions *[]region, memory *[][]byte) error {
	offset := uint64(0)
	for size := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		b, err := unix.Mmap(-1, 0, (n+gapPages)*pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		if err := unix.Madvise(b, unix.MADV_NOHUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
			return err
		}
		b = b[:n*pageBytes]
		*memory = append(*memory, b)
		*regions = append(*regions, region{Address: uint64(uintptr(unsafe.Pointer(&b[0]))), Bytes: uint64(len(b)), Offset: offset, PageSize: pageBytes})
		offset += uint64(len(b))
	}
	return nil
}

// makeUffd makes one that anybody may: for the faults of user code.
func makeUffd(u *int) error {
	const userModeOnly, requestAPI, version, featureRemove = 1, 0xc018aa3f, 0xaa, 1 << 3
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|userModeOnly, 0, 0)
	if errno != 0 {
		return fmt.Errorf("make a userfaultfd: %w", errno)
	}
	api := [3]uint64{version, featureRemove, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, requestAPI, uintptr(unsafe.Pointer(&api))); errno != 0 {
		return fmt.Errorf("ask for the userfaultfd's interface: %w", errno)
	}
	*u = int(fd)
	return nil
}

func register(u int, regions []region) error {
	const requestRegister, modeMissing = 0xc020aa00, 1
	for _, r := range regions {
		order := [4]uint64{r.Address, r.Bytes, modeMissing, 0}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(u), requestRegister, uintptr(unsafe.Pointer(&order))); errno != 0 {
			return fmt.Errorf("register the memory: %w", errno)
		}
	}
	return nil
}

// obey does what a line says and answers in one.
func obey(line string, memory [][]byte, c *net.UnixConn) string {
	words := strings.Fields(line)
	number := func(i int) int { n, _ := strconv.Atoi(words[i]); return n }
	page := func(n int) []byte {
		for _, m := range memory {
			if n*pageBytes < len(m) {
				return m[n*pageBytes : (n+1)*pageBytes]
			}
			n -= len(m) / pageBytes
		}
		panic("no such page")
	}
	switch words[0] {
	case "read": // N: the page's digest
		return digest(page(number(1)))
	case "write": // N B: a byte into it
		page(number(1))[0] = byte(number(2))
		return "written"
	case "remove": // N COUNT
		p := page(number(1))
		whole := unsafe.Slice(&p[0], number(2)*pageBytes)
		if err := unix.Madvise(whole, unix.MADV_DONTNEED); err != nil {
			return err.Error()
		}
		return "removed"
	case "sum": // THREADS: the digest of all of it, which all of them read at once
		return sum(memory, number(1))
	case "hang": // up
		c.Close()
		return "hung up"
	case "say":
		c.Write([]byte(words[1]))
		return "said"
	}
	return "what?"
}

// sum touches all pages from several threads, each beginning elsewhere, and returns the digest.
func sum(memory [][]byte, threads int) string {
	var all sync.WaitGroup
	for t := range threads {
		all.Go(func() {
			for _, m := range memory {
				pages := len(m) / pageBytes
				for i := range pages {
					_ = *(*byte)(unsafe.Pointer(&m[(i+t*pages/threads)%pages*pageBytes]))
				}
			}
		})
	}
	all.Wait()
	h := sha256.New()
	for _, m := range memory {
		h.Write(m)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func digest(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// victim is the test's end of one.
type victim struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   *os.File
	out  *bufio.Reader
	pipe interface{ SetReadDeadline(time.Time) error }
	conn *net.UnixConn
}

// newVictim starts one with regions of so many pages, and takes its connection.
func newVictim(t *testing.T, sizes string) *victim {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	v := startVictim(t, socket, sizes)
	if v.conn, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.conn.Close() })
	v.expect("up")
	return v
}

func startVictim(t *testing.T, socket, sizes string) *victim {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), victimVariable+"="+socket+" "+sizes)
	cmd.Stderr = os.Stderr
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = in
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	v := &victim{t: t, cmd: cmd, in: w, out: bufio.NewReader(out), pipe: out.(*os.File)}
	t.Cleanup(v.kill)
	return v
}

// kill ends it, as often as one likes.
func (v *victim) kill() {
	v.cmd.Process.Kill()
	v.cmd.Wait()
	v.in.Close()
}

// tell gives an order and doesn't wait for the answer.
func (v *victim) tell(format string, args ...any) {
	v.t.Helper()
	if _, err := fmt.Fprintf(v.in, format+"\n", args...); err != nil {
		v.t.Error(err)
	}
}

// answer waits for one.
func (v *victim) answer() string {
	v.t.Helper()
	v.pipe.SetReadDeadline(time.Now().Add(20 * time.Second)) // or it waits for a page that never comes
	line, err := v.out.ReadString('\n')
	if err != nil {
		v.t.Errorf("the victim doesn't answer: %v", err)
	}
	return strings.TrimSpace(line)
}

func (v *victim) ask(format string, args ...any) string {
	v.t.Helper()
	v.tell(format, args...)
	return v.answer()
}

func (v *victim) expect(want string) {
	v.t.Helper()
	if got := v.answer(); got != want {
		v.t.Fatalf("the victim says %q, want %q", got, want)
	}
}
