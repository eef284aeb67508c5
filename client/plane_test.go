package client

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

// planeEdge is a data plane with one file and one session's stdin, which fails as often as it is told to.
type planeEdge struct {
	mu       sync.Mutex
	failures int           // requests whose body is kept in part, and whose answer is cut
	arrived  chan struct{} // receives when stdin has come, if it isn't nil
	stdin    []byte
	closed   bool
	file     []byte
	seen     []string
}

func (e *planeEdge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery)
	if r.Header.Get("Authorization") != "Bearer spacesbx_x" {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"type":"t","title":"Unauthorized","status":401,"code":"unauthenticated"}`)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch {
	case r.URL.Path == "/v1/sessions/ses_1/stdin":
		e.takeStdin(w, r, body)
	case r.Method == http.MethodPut:
		e.file = body
		io.WriteString(w, `{"path":"/f","type":"file","size":`+strconv.Itoa(len(body))+`,"mode":"0644","uid":0,"gid":0,"modified_at":"2026-01-01T00:00:00Z"}`)
	case r.Method == http.MethodGet:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(e.file))
	}
}

// takeStdin keeps what is new, as the real one does, and sometimes dies before it has kept all, or said so.
func (e *planeEdge) takeStdin(w http.ResponseWriter, r *http.Request, body []byte) {
	offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
	if e.failures > 0 {
		e.failures--
		defer panic(http.ErrAbortHandler)
		body = body[:len(body)/2]
	}
	if skip := len(e.stdin) - offset; skip <= len(body) {
		e.stdin = append(e.stdin, body[skip:]...)
	}
	e.closed = r.URL.Query().Get("close") == "true"
	if e.arrived != nil && len(body) > 0 {
		e.arrived <- struct{}{}
	}
	io.WriteString(w, `{"received":`+strconv.Itoa(max(len(e.stdin), offset))+`}`)
}

func plane(t *testing.T, e *planeEdge, token string) *Plane {
	t.Helper()
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	p, err := NewPlane(s.URL, "sbx_1", token)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestStdinSurvivesBrokenAnswers: bytes that didn't arrive, or whose answer was lost, are sent again, and arrive once.
func TestStdinSurvivesBrokenAnswers(t *testing.T) {
	e := &planeEdge{failures: 4}
	sent := bytes.Repeat([]byte("0123456789"), 2*stdinWindow/10)
	n, err := plane(t, e, "spacesbx_x").SendStdin(t.Context(), "ses_1", 0, bytes.NewReader(sent), true)
	if err != nil || n != int64(len(sent)) {
		t.Fatalf("sent %d: %v", n, err)
	}
	if !bytes.Equal(e.stdin, sent) || !e.closed {
		t.Errorf("the session got %d bytes of %d, closed %t", len(e.stdin), len(sent), e.closed)
	}
}

// TestStdinIsSentInLongRequests: what can be read at once doesn't wait for an answer every so often.
func TestStdinIsSentInLongRequests(t *testing.T) {
	e := &planeEdge{}
	if _, err := plane(t, e, "spacesbx_x").SendStdin(t.Context(), "ses_1", 0, bytes.NewReader(make([]byte, 4<<20)), true); err != nil {
		t.Fatal(err)
	}
	if len(e.seen) > 4 { // one and the close; a machine under load may lose a linger
		t.Errorf("%d requests for 4 MiB: %q", len(e.seen), e.seen)
	}
}

// TestStdinIsSentAsItComes: a conversation needs each line to arrive before the next is written.
func TestStdinIsSentAsItComes(t *testing.T) {
	e := &planeEdge{arrived: make(chan struct{})}
	r, w := io.Pipe()
	go func() {
		for _, line := range []string{"one\n", "two\n", "three\n"} {
			io.WriteString(w, line)
			<-e.arrived
		}
		w.Close()
	}()
	n, err := plane(t, e, "spacesbx_x").SendStdin(t.Context(), "ses_1", 0, r, true)
	if err != nil || n != 14 || string(e.stdin) != "one\ntwo\nthree\n" {
		t.Errorf("sent %d, %q: %v", n, e.stdin, err)
	}
}

// TestStdinOfABrokenSource: what was read before is sent, and the end isn't told.
func TestStdinOfABrokenSource(t *testing.T) {
	e := &planeEdge{}
	broken := errors.New("the disk is gone")
	n, err := plane(t, e, "spacesbx_x").SendStdin(t.Context(), "ses_1", 0, io.MultiReader(bytes.NewReader([]byte("part")), iotest.ErrReader(broken)), true)
	if !errors.Is(err, broken) || n != 4 || string(e.stdin) != "part" || e.closed {
		t.Errorf("sent %d, %q, closed %t: %v", n, e.stdin, e.closed, err)
	}
}

func TestFileThereAndBack(t *testing.T) {
	e := &planeEdge{}
	p := plane(t, e, "spacesbx_x")
	entry, err := p.WriteFile(t.Context(), "/a b?c", bytes.NewReader([]byte("hello")), AsUser("root"), WithMode("0600"))
	if err != nil || entry.Size != 5 {
		t.Fatalf("%+v: %v", entry, err)
	}
	if want := "PUT /v1/sandboxes/sbx_1/files/content?mode=0600&path=%2Fa+b%3Fc&user=root"; e.seen[0] != want {
		t.Errorf("asked for %q, want %q", e.seen[0], want)
	}
	r, err := p.ReadFile(t.Context(), "/a", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != "llo" {
		t.Errorf("read %q: %v", b, err)
	}
}

func TestReadFileRange(t *testing.T) {
	e := &planeEdge{file: []byte("0123456789")}
	p := plane(t, e, "spacesbx_x")
	for _, tt := range []struct {
		offset, length int64
		want           string
	}{{0, 1, "0"}, {3, 4, "3456"}, {8, 100, "89"}, {0, 1 << 62, "0123456789"}} {
		r, err := p.ReadFileRange(t.Context(), "/f", tt.offset, tt.length)
		if err != nil {
			t.Errorf("%d from %d on: %v", tt.length, tt.offset, err)
			continue
		}
		if b, err := io.ReadAll(r); err != nil || string(b) != tt.want {
			t.Errorf("%d from %d on: %q, want %q: %v", tt.length, tt.offset, b, tt.want, err)
		}
		r.Close()
	}
	asked := len(e.seen)
	for _, no := range [][2]int64{{-1, 5}, {0, 0}, {3, -1}, {5, math.MaxInt64}} {
		if _, err := p.ReadFileRange(t.Context(), "/f", no[0], no[1]); err == nil {
			t.Errorf("%v was taken for a range", no)
		}
	}
	if len(e.seen) != asked {
		t.Errorf("the platform was asked: %q", e.seen[asked:])
	}
}

func TestPlaneRefusal(t *testing.T) {
	_, err := plane(t, &planeEdge{}, "spacesbx_other").StatFile(t.Context(), "/")
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != "unauthenticated" || refused.Status != 401 {
		t.Errorf("got %v", err)
	}
	if _, err := NewPlane("ftp://x", "sbx_1", "t"); err == nil {
		t.Error("an address that isn't http was taken")
	}
}
