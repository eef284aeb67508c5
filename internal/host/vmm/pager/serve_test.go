package pager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testPages is the size of a test's memory, in two regions whose border isn't a chunk's.
const (
	testPages = 2048
	testSizes = "1001,1047"
)

// memoryFile makes a memory file, three quarters of whose pages are holes or random data in runs, and the others zeros that are written.
func memoryFile(t *testing.T) (f *os.File, content []byte) {
	t.Helper()
	r := rand.NewChaCha8([32]byte{7})
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "memory"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	content = make([]byte, testPages*pageBytes)
	if err := f.Truncate(int64(len(content))); err != nil {
		t.Fatal(err)
	}
	for at, kind := 0, 0; at < testPages; kind++ {
		n := min(1+int(r.Uint64()%40), testPages-at)
		part := content[at*pageBytes : (at+n)*pageBytes]
		if kind%4 < 2 {
			r.Read(part)
		}
		if kind%4 != 3 {
			if _, err := f.WriteAt(part, int64(at)*pageBytes); err != nil {
				t.Fatal(err)
			}
		}
		at += n
	}
	return f, content
}

// service is a server in this process, with a victim.
type service struct {
	*server
	*victim
	set    []uint32
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// serving starts both. change changes what the server is made of.
func serving(t *testing.T, f *os.File, change func(*service)) *service {
	t.Helper()
	source, err := newFile(f, testPages*pageBytes)
	if err != nil {
		t.Fatal(err)
	}
	v := newVictim(t, testSizes)
	u, regions, err := handshake(v.conn, os.Getuid(), testPages*pageBytes)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{server: newServer(u, regions, source, nil), victim: v, done: make(chan struct{})}
	if change != nil {
		change(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() {
		s.err = s.serve(ctx, v.conn, s.set)
		close(s.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-s.done
		u.file.Close()
	})
	return s
}

// ends waits for the server's end and returns why.
func (s *service) ends(t *testing.T) error {
	t.Helper()
	select {
	case <-s.done:
		return s.err
	case <-time.After(20 * time.Second):
		t.Fatal("the server goes on")
		return nil
	}
}

func sumOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func TestAllPagesComeToManyThreadsAtOnce(t *testing.T) {
	f, content := memoryFile(t)
	s := serving(t, f, nil)
	if got := s.ask("sum 16"); got != sumOf(content) {
		t.Errorf("the memory's digest is %s, want %s", got, sumOf(content))
	}
	if n := s.faults.Load(); n < testPages*pageBytes/chunkBytes/2 {
		t.Errorf("%d pages were asked for: the test doesn't test", n)
	}
	s.kill()
	if err := s.ends(t); err != nil {
		t.Errorf("after the machine's end: %v", err)
	}
}

func TestManyMachinesHaveTheSameMemory(t *testing.T) {
	f, content := memoryFile(t)
	var all sync.WaitGroup
	for range 4 {
		s := serving(t, f, nil)
		all.Go(func() {
			if got := s.ask("sum 4"); got != sumOf(content) {
				t.Errorf("the memory's digest is %s, want %s", got, sumOf(content))
			}
		})
	}
	all.Wait()
}

func TestTheWorkingSetComesUnasked(t *testing.T) {
	f, content := memoryFile(t)
	var set []uint32
	for page := range uint32(testPages) {
		set = append(set, testPages-1-page)
	}
	fetched := make(chan struct{})
	s := serving(t, f, func(s *service) {
		s.set = set
		s.source = &counting{Source: s.source, want: testPages * pageBytes, all: fetched}
	})
	select {
	case <-fetched:
	case <-time.After(20 * time.Second):
		t.Fatal("not all of it comes unasked")
	}
	if got := s.ask("sum 4"); got != sumOf(content) {
		t.Errorf("the memory's digest is %s, want %s", got, sumOf(content))
	}
	if n := s.faults.Load(); n > 2 { // the last chunk may be on its way
		t.Errorf("%d pages were asked for that were to be there", n)
	}
}

// counting closes a channel when so many bytes were fetched.
type counting struct {
	Source
	mu   sync.Mutex
	want int
	all  chan struct{}
}

func (c *counting) Fetch(ctx context.Context, buf []byte, offset int64) (int, bool, error) {
	n, zeros, err := c.Source.Fetch(ctx, buf, offset)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want -= n; c.want == 0 {
		close(c.all)
	}
	return n, zeros, err
}

func TestThePagesOfTheBeginningAreRecordedInOrder(t *testing.T) {
	f, _ := memoryFile(t)
	recorded := make(chan []uint32, 1)
	touched := []uint32{1500, 3, 999, 1001, 40}
	limit := time.Second
	s := serving(t, f, func(s *service) {
		s.record = newRecorder(limit, func(set []uint32) error { recorded <- set; return nil })
	})
	for _, page := range touched {
		s.ask("read %d", page)
	}
	if got := <-recorded; !slices.Equal(got, touched) {
		t.Errorf("recorded are %v, want %v", got, touched)
	}
	s.ask("read 700")
	if got := s.record.set; !slices.Equal(got, touched) {
		t.Errorf("after its time recorded are %v", got)
	}
}

func TestRemovedPagesAreZeros(t *testing.T) {
	f, content := memoryFile(t)
	s := serving(t, f, nil)
	zeros := sumOf(make([]byte, pageBytes))
	page := slices.IndexFunc(make([]struct{}, testPages), func(struct{}) bool { return false })
	for page = 100; content[page*pageBytes] == 0 || content[(page+1)*pageBytes] == 0; page++ { // two with data
	}
	want := sumOf(content[page*pageBytes : (page+1)*pageBytes])
	if got := s.ask("read %d", page); got != want {
		t.Fatalf("the page's digest is %s, want %s", got, want)
	}
	if got := s.ask("remove %d 2", page); got != "removed" {
		t.Fatal(got)
	}
	for range 2 {
		if got := s.ask("read %d", page); got != zeros {
			t.Errorf("a removed page has %s, want zeros", got)
		}
		s.ask("remove %d 1", page)
	}
	if got := s.ask("read %d", page+1); got != zeros {
		t.Errorf("the second removed page has %s, want zeros", got)
	}
	s.ask("write %d 9", page)
	if got := s.ask("read %d", page+2); got != sumOf(content[(page+2)*pageBytes:(page+3)*pageBytes]) {
		t.Errorf("the page behind has %s", got)
	}
}

// Pages are removed while they come: whatever the order, one that was removed is never the file's again.
func TestPagesAreRemovedWhileTheyCome(t *testing.T) {
	f, content := memoryFile(t)
	set := make([]uint32, testPages)
	for i := range set {
		set[i] = uint32(i)
	}
	s := serving(t, f, func(s *service) { s.set = set })
	for page := 0; page+16 < 1000; page += 16 {
		if got := s.ask("remove %d 16", page); got != "removed" {
			t.Fatal(got)
		}
		if got := s.ask("read %d", page+3); got != sumOf(make([]byte, pageBytes)) {
			t.Fatalf("page %d was removed and has %s", page+3, got)
		}
	}
	if got := s.ask("read %d", 1020); got != sumOf(content[1020*pageBytes:1021*pageBytes]) {
		t.Errorf("page 1020 has %s", got)
	}
}

// broken fails at one offset.
type broken struct {
	Source
	at int64
}

var errDisk = errors.New("the disk is broken")

func (b broken) Fetch(ctx context.Context, buf []byte, offset int64) (int, bool, error) {
	if b.at >= offset && b.at < offset+int64(len(buf)) {
		return 0, false, errDisk
	}
	return b.Source.Fetch(ctx, buf, offset)
}

func TestAPageThatCanNotBeReadEndsIt(t *testing.T) {
	f, _ := memoryFile(t)
	s := serving(t, f, func(s *service) { s.source = broken{s.source, 1500 * pageBytes} })
	s.ask("read 3")
	s.tell("read 1500")
	if err := s.ends(t); !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "read the page at offset") {
		t.Errorf("it ends with %v", err)
	}
}

func TestAFileThatWasCutOffIsNotZeros(t *testing.T) {
	for _, page := range []int{testPages / 2, 1500, testPages - 1} {
		f, _ := memoryFile(t)
		s := serving(t, f, nil)
		s.ask("read 3")
		if err := f.Truncate(testPages / 2 * pageBytes); err != nil {
			t.Fatal(err)
		}
		s.tell("read %d", page)
		if err := s.ends(t); err == nil || !strings.Contains(err.Error(), "want 8388608") {
			t.Errorf("page %d: it ends with %v", page, err)
		}
	}
	f, _ := memoryFile(t)
	if err := f.Truncate(pageBytes); err != nil {
		t.Fatal(err)
	}
	if _, err := newFile(f, testPages*pageBytes); err == nil {
		t.Error("a short file is fine")
	}
}

func TestTheEndOfTheConnectionIsTheEnd(t *testing.T) {
	f, _ := memoryFile(t)
	s := serving(t, f, nil)
	s.ask("hang")
	if err := s.ends(t); err != nil {
		t.Errorf("it ends with %v", err)
	}
	s = serving(t, f, nil)
	s.ask("say more")
	if err := s.ends(t); err == nil || !strings.Contains(err.Error(), "after the handshake") {
		t.Errorf("one that goes on speaking ends it with %v", err)
	}
}

func TestItEndsWithItsContext(t *testing.T) {
	f, _ := memoryFile(t)
	slow := make(chan struct{})
	s := serving(t, f, func(s *service) { s.source = stuck{slow} })
	s.tell("read 3")
	<-slow
	s.cancel()
	s.ends(t)
}

// stuck never has a page.
type stuck struct{ asked chan struct{} }

func (s stuck) Fetch(ctx context.Context, _ []byte, _ int64) (int, bool, error) {
	close(s.asked)
	<-ctx.Done()
	return 0, false, ctx.Err()
}

func TestADeadMachineIsNoFailure(t *testing.T) {
	f, _ := memoryFile(t)
	asked := make(chan struct{})
	die := make(chan struct{})
	s := serving(t, f, func(s *service) { s.source = waiting{s.source, asked, die} })
	s.tell("read 3")
	<-asked
	s.kill()
	close(die)
	if err := s.ends(t); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// waiting has its first page only when it may.
type waiting struct {
	Source
	asked, may chan struct{}
}

func (w waiting) Fetch(ctx context.Context, buf []byte, offset int64) (int, bool, error) {
	close(w.asked)
	<-w.may
	return w.Source.Fetch(ctx, buf, offset)
}

func TestAHandshakeThatIsNone(t *testing.T) {
	good := fmt.Sprintf(`[{"base_host_virt_addr":4096,"size":%d,"offset":0,"page_size":4096}]`, testPages*pageBytes)
	for name, c := range map[string]struct {
		text  string
		files int
		want  string
	}{
		"garbage":         {"no json\x00", 1, "EOF"},
		"nothing":         {"", 0, "EOF"},
		"no descriptor":   {good, 0, "0 descriptors"},
		"two descriptors": {good, 2, "2 descriptors"},
		"many":            {good, 100, "too many descriptors"},
		"endless":         {"[" + strings.Repeat(" ", 2*maxHandshake), 1, "no JSON text"},
		"another size":    {strings.Replace(good, fmt.Sprint(testPages*pageBytes), "4096", 1), 1, "the memory"},
		"huge pages":      {strings.Replace(good, `"page_size":4096`, `"page_size":2097152`, 1), 1, "2097152"},
	} {
		t.Run(name, func(t *testing.T) {
			before := openFiles(t)
			a, b := pair(t)
			var fds []int
			for range c.files {
				fds = append(fds, int(os.Stdin.Fd()))
			}
			var work sync.WaitGroup
			work.Go(func() {
				if c.text != "" {
					b.WriteMsgUnix([]byte(c.text), unix.UnixRights(fds...), nil)
				}
				b.Close()
			})
			_, _, err := handshake(a, os.Getuid(), testPages*pageBytes)
			work.Wait()
			if err == nil || !strings.Contains(err.Error(), c.want) && !(c.want == "EOF" && errors.Is(err, io.EOF)) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			a.Close()
			if after := openFiles(t); after != before {
				t.Errorf("%d descriptors are open, %d were", after, before)
			}
		})
	}
	a, b := pair(t)
	defer a.Close()
	defer b.Close()
	if _, _, err := handshake(a, os.Getuid()+1, 4096); err == nil || !strings.Contains(err.Error(), "want") {
		t.Errorf("another user is welcome: %v", err)
	}
}

func TestSomethingElseThanAUserfaultfd(t *testing.T) {
	a, b := pair(t)
	defer a.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	w.WriteString("no message of the kernel")
	text := fmt.Sprintf(`[{"base_host_virt_addr":4096,"size":%d,"offset":0,"page_size":4096}]`, testPages*pageBytes)
	if _, _, err := b.WriteMsgUnix([]byte(text), unix.UnixRights(int(r.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	u, regions, err := handshake(a, os.Getuid(), testPages*pageBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer u.file.Close()
	f, _ := memoryFile(t)
	source, err := newFile(f, testPages*pageBytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := newServer(u, regions, source, nil).serve(t.Context(), a, []uint32{1}); err == nil {
		t.Error("it's served")
	}
	b.Close()
}

func pair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		out[i] = c.(*net.UnixConn)
	}
	return out[0], out[1]
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func FuzzParseRegions(f *testing.F) {
	f.Add([]byte(`[{"base_host_virt_addr":4096,"size":8192,"offset":0,"page_size":4096,"page_size_kib":4096}]`), int64(8192))
	f.Add([]byte(`[{"base_host_virt_addr":65536,"size":4096,"offset":4096,"page_size":4096},{"base_host_virt_addr":4096,"size":4096,"offset":0,"page_size":4096}]`), int64(8192))
	f.Add([]byte(`[{"base_host_virt_addr":18446744073709547520,"size":8192,"offset":0,"page_size":4096}]`), int64(8192))
	f.Add([]byte(`[]`), int64(0))
	f.Add([]byte(`null`), int64(0))
	f.Fuzz(func(t *testing.T, text []byte, memory int64) {
		if memory <= 0 || memory > maxMemory {
			return // the arguments are checked
		}
		regions, err := parseRegions(text, memory)
		if err != nil {
			return
		}
		at := int64(0)
		for i, r := range regions {
			if r.Offset != at || r.Bytes <= 0 || r.Bytes%pageBytes != 0 || r.Address+uint64(r.Bytes) < r.Address {
				t.Fatalf("regions %+v", regions)
			}
			at += r.Bytes
			for _, o := range regions[i+1:] {
				if o.Address < r.Address+uint64(r.Bytes) && r.Address < o.Address+uint64(o.Bytes) {
					t.Fatalf("regions %+v overlap", regions)
				}
			}
		}
		if at != memory {
			t.Fatalf("regions %+v of a memory of %d", regions, memory)
		}
	})
}
