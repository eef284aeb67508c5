package edge

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	space "github.com/space-platform/space"
	httpapi "github.com/space-platform/space/api/gen/http"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	uploadv1 "github.com/space-platform/space/api/gen/upload/v1"
)

type staging = connect.ClientStream[uploadv1.PutRequest]

// stages reads an upload to its end.
func stages(s *staging) (*uploadv1.PutResponse, error) {
	sum, n := sha256.New(), uint64(0)
	for s.Receive() {
		n += uint64(len(s.Msg().GetData()))
		sum.Write(s.Msg().GetData())
		if s.Msg().GetEnd() {
			return &uploadv1.PutResponse{Bytes: n, Sha256: hex.EncodeToString(sum.Sum(nil))}, nil
		}
	}
	return nil, space.Errorf(space.CodeInvalid, "it broke off: %v", s.Err())
}

func TestUpload(t *testing.T) {
	r := newRig(t)
	first := make(chan *uploadv1.Upload, 9)
	r.stage = func(s *staging) (*uploadv1.PutResponse, error) {
		s.Receive()
		first <- s.Msg().GetUpload()
		return stages(s)
	}
	data := make([]byte, 1<<20-3)
	rand.Read(data)
	put := func(body io.Reader) *client {
		return r.ask(t, "PUT", "/v1/uploads/"+r.upload, body, "Authorization", "Bearer "+r.put)
	}
	var got httpapi.UploadReceived
	put(bytes.NewReader(data)).want(t, 200, &got)
	want := sha256.Sum256(data)
	if got.Upload != r.upload || got.Bytes != int64(len(data)) || got.Sha256 != hex.EncodeToString(want[:]) {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(&uploadv1.Upload{Id: r.upload, Node: "here", MaxBytes: 1 << 20, Sha256: "abc", Project: "prj_1", ProjectBytes: 5}, <-first, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	put(io.MultiReader(bytes.NewReader(data))).want(t, 200, &got)
	put(http.NoBody).want(t, 200, &got)
	put(bytes.NewReader(make([]byte, 1<<20+1))).fails(t, space.CodeTooLarge, "")
	r.stage = func(*staging) (*uploadv1.PutResponse, error) {
		return nil, space.Errorf(space.CodeTooLarge, "over the limit")
	}
	put(io.MultiReader(bytes.NewReader(data))).fails(t, space.CodeTooLarge, "")
	r.stage = func(s *staging) (*uploadv1.PutResponse, error) {
		stages(s)
		return nil, space.FieldErrorf("sha256", "it has another digest")
	}
	put(bytes.NewReader(data)).fails(t, space.CodeInvalid, "sha256")
}

// raw sends a request on a connection of its own and leaves it open.
func (r *rig) raw(t *testing.T, request string, args ...any) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(waitLimit))
	fmt.Fprintf(conn, request, args...)
	return conn
}

func (r *rig) rawPut(t *testing.T, headers, body string) net.Conn {
	t.Helper()
	return r.raw(t, "PUT %s HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer %s\r\n%s\r\n%s", r.files("/content?path=/f"), r.box, headers, body)
}

// TestBodiesThatBreakOffLeaveNothing has clients that vanish, lie about the length or break the encoding.
func TestBodiesThatBreakOffLeaveNothing(t *testing.T) {
	r := newRig(t)
	broke := make(chan error, 9)
	r.call = func(_ context.Context, _ *sandboxv1.Action, s *nodeCall) error {
		_, err := upload(s)
		broke <- err
		return err
	}
	for name, request := range map[string][2]string{
		"too short":           {"Content-Length: 10\r\n", "12345"},
		"a chunk cut":         {"Transfer-Encoding: chunked\r\n", "a\r\n12345"},
		"no last chunk":       {"Transfer-Encoding: chunked\r\n", "5\r\n12345\r\n"},
		"a chunk of nonsense": {"Transfer-Encoding: chunked\r\n", "5\r\n12345\r\nzz\r\n"},
		"a piece and a bit":   {"Content-Length: 100000\r\n", repeat("x", 40_000)},
	} {
		conn := r.rawPut(t, request[0], request[1])
		conn.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(conn)
		if len(answer) > 0 && !bytes.Contains(answer, []byte(" 400 ")) {
			t.Errorf("%s: %s", name, answer)
		}
	}
	r.stop()
	for len(broke) > 0 { // a call that was cancelled at once may never have reached the node
		if <-broke == nil {
			t.Error("one of them counts as whole")
		}
	}
}

func TestBodyThatStandsStillIsGivenUp(t *testing.T) {
	r := newRig(t)
	r.stop()
	r.timing.progress, r.timing.client.Rest = 50*time.Millisecond, 200*time.Millisecond
	r.serve(t)
	broke := make(chan error, 1)
	r.call = func(_ context.Context, _ *sandboxv1.Action, s *nodeCall) error {
		_, err := upload(s)
		broke <- err
		return err
	}
	conn := r.rawPut(t, "Content-Length: 100000\r\n", repeat("x", 40_000))
	answer, err := io.ReadAll(conn)
	if err != nil || !bytes.Contains(answer, []byte(" 504 ")) || !bytes.Contains(answer, []byte(`"code":"timeout"`)) {
		t.Errorf("%v: %s", err, answer)
	}
	if err := <-broke; err == nil {
		t.Error("it counts as whole")
	}
}

// TestSlowBodyIsLetBe: a client that brings enough in time may take as long as it needs in all.
func TestSlowBodyIsLetBe(t *testing.T) {
	r := newRig(t)
	r.timing.progress = 200 * time.Millisecond
	d := newDisk(map[string]string{})
	r.call = d.call
	sent := make(chan string)
	go func() {
		defer close(sent)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range 30 {
			<-tick.C
			sent <- repeat("x", 32<<10)
		}
	}()
	r.ask(t, "PUT", r.files("/content?path=/f"), trickle{sent, io.EOF}).want(t, 201, nil)
	if len(d.files["/f"]) != 30*32<<10 {
		t.Errorf("%d bytes", len(d.files["/f"]))
	}
}

// TestGuestThatTakesNothing fills everything on the way and then refuses; the client, which still sends, hears why.
func TestGuestThatRefusesOnTheWay(t *testing.T) {
	r := newRig(t)
	r.call = func(_ context.Context, _ *sandboxv1.Action, s *nodeCall) error {
		s.Receive()
		return space.Errorf(space.CodeTooLarge, "no room on the disk")
	}
	conn := r.rawPut(t, "Content-Length: 1000000000\r\n", "")
	go func() {
		chunk := make([]byte, 32<<10)
		for {
			if _, err := conn.Write(chunk); err != nil {
				return
			}
		}
	}()
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	if err != nil || !bytes.Contains(answer[:n], []byte(" 413 ")) {
		t.Errorf("%v: %s", err, answer[:n])
	}
}

// TestDeafReaderIsGivenUp has a client that asks for a file and doesn't read it; others go on, and the guest's call ends.
func TestDeafReaderIsGivenUp(t *testing.T) {
	r := newRig(t)
	r.timing.progress = 100 * time.Millisecond
	gone := make(chan struct{})
	r.call = func(ctx context.Context, a *sandboxv1.Action, s *nodeCall) error {
		if a.GetStat() != nil {
			return sendEntry(s, &sandboxv1.Entry{Path: "/a"})
		}
		defer close(gone)
		sendEntry(s, &sandboxv1.Entry{Path: "/f", Type: "file", Size: 1 << 40})
		for chunk := make([]byte, 32<<10); ; {
			if err := sendData(s, chunk); err != nil {
				return err
			}
		}
	}
	r.raw(t, "GET %s HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer %s\r\n\r\n", r.files("/content?path=/f"), r.box)
	r.ask(t, "GET", r.files("/stat?path=/a"), nil).want(t, 200, nil)
	await(t, "the call's end", gone)
}

func TestCallLimit(t *testing.T) {
	r := newRig(t)
	r.call = watches(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	for range maxCallsPerSandbox {
		r.ask(t, "GET", r.files("/watch?path=/"), nil).mustNext(t)
	}
	r.ask(t, "GET", r.files("/stat?path=/"), nil).fails(t, space.CodeQuotaExceeded, "")
	r.ask(t, "GET", r.files("/stat?path=/"), nil, "Authorization", "Bearer spacesbx_stranger").fails(t, space.CodeUnauthenticated, "")
}

func TestClientThatLeavesEndsItsCall(t *testing.T) {
	r := newRig(t)
	gone := make(chan struct{})
	begun := make(chan struct{})
	r.call = func(ctx context.Context, _ *sandboxv1.Action, _ *nodeCall) error {
		close(begun)
		<-ctx.Done()
		close(gone)
		return ctx.Err()
	}
	conn := r.raw(t, "GET %s HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer %s\r\n\r\n", r.files("/stat?path=/f"), r.box)
	await(t, "the call has begun", begun)
	conn.Close()
	await(t, "the call's end", gone)
}

func TestPagesOfOtherOrigins(t *testing.T) {
	r := newRig(t)
	r.call = newDisk(map[string]string{"/f": "x"}).call
	at := r.files("/content?path=/f")
	c := r.ask(t, "GET", at, nil, "Origin", "https://app.example")
	if c.Header.Get("Access-Control-Allow-Origin") != "https://app.example" || c.Header.Get("Vary") != "Origin" || c.StatusCode != 200 {
		t.Errorf("%s %v", c.Status, c.Header)
	}
	c = r.ask(t, "OPTIONS", at, nil, "Authorization", "", "Origin", "https://app.example", "Access-Control-Request-Method", "PUT")
	if c.StatusCode != 204 || c.Header.Get("Access-Control-Allow-Methods") != "GET, HEAD, PUT" || !strings.Contains(c.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("%s %v", c.Status, c.Header)
	}
	for _, origin := range []string{"https://evil.example", "null", "https://app.example.evil"} {
		if c := r.ask(t, "GET", at, nil, "Origin", origin); c.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s may read", origin)
		}
		if c := r.ask(t, "OPTIONS", at, nil, "Origin", origin, "Access-Control-Request-Method", "PUT"); c.StatusCode != 405 {
			t.Errorf("%s may ask: %s", origin, c.Status)
		}
	}
}
