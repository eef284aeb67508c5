package edge

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	httpapi "github.com/space-platform/space/api/gen/http"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

func TestFilesThereAndBack(t *testing.T) {
	r := newRig(t)
	d := newDisk(map[string]string{})
	r.call = d.call
	data := make([]byte, 3<<20+17)
	rand.Read(data)
	var e httpapi.FileEntry
	at := r.files("/content?path=" + url.QueryEscape("/home/user/ä b.bin") + "&mode=0600")
	r.ask(t, "PUT", at, bytes.NewReader(data)).want(t, 201, &e)
	if e.Path != "/home/user/ä b.bin" || e.Size != int64(len(data)) || e.Mode != "0600" || *e.Owner != "user" || !e.ModifiedAt.Equal(noon) {
		t.Errorf("%+v", e)
	}
	if w := r.lastAction(t); w.GetUser() != "user" || w.GetWrite().GetSizeHint() != uint64(len(data)) {
		t.Errorf("%v", w)
	}
	r.ask(t, "PUT", at, io.MultiReader(bytes.NewReader(data))).want(t, 200, nil) // without a length, and there already
	c := r.ask(t, "GET", strings.TrimSuffix(at, "&mode=0600"), nil)
	if got := c.body(t); got != string(data) || c.ContentLength != int64(len(data)) {
		t.Errorf("%d bytes, announced %d", len(got), c.ContentLength)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox", "Accept-Ranges": "bytes",
		"Last-Modified": "Thu, 01 Jan 2026 12:00:00 GMT", "Content-Disposition": "attachment; filename*=utf-8''%C3%A4%20b.bin",
	} {
		if got := c.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	r.ask(t, "PUT", r.files("/content?path=/empty"), nil).want(t, 201, nil)
	if got := r.ask(t, "GET", r.files("/content?path=/empty"), nil).want(t, 200, nil); got.ContentLength != 0 {
		t.Errorf("an empty file has length %d", got.ContentLength)
	}
	r.ask(t, "GET", r.files("/content?path=/none"), nil).fails(t, space.CodeNotFound, "")
}

// TestModeIsTheClients: what no mode was asked for keeps the one that it has, so none may be made up on the way.
func TestModeIsTheClients(t *testing.T) {
	r := newRig(t)
	d := newDisk(map[string]string{"/run.sh": "#!/bin/sh"})
	r.call = d.call
	for _, tt := range []struct {
		query string
		want  *uint32
	}{{"", nil}, {"&mode=0755", proto.Uint32(0o755)}, {"&mode=000", proto.Uint32(0)}} {
		r.ask(t, "PUT", r.files("/content?path=/run.sh"+tt.query), strings.NewReader("new")).want(t, 200, nil)
		if diff := cmp.Diff(tt.want, r.lastAction(t).GetWrite().Mode); diff != "" {
			t.Errorf("%q: %s", tt.query, diff)
		}
	}
	r.ask(t, "PUT", r.files("/content?path=/run.sh&signature=good&expires=1900000000"), strings.NewReader("new"), "Authorization", "").want(t, 200, nil)
	if m := r.lastAction(t).GetWrite().Mode; m != nil {
		t.Errorf("by a signed URL: %o", *m)
	}
}

// TestRangesAreHTTPs holds the answers to a single range against those of net/http's own file server.
func TestRangesAreHTTPs(t *testing.T) {
	r := newRig(t)
	r.call = newDisk(map[string]string{"/f": "0123456789", "/empty": ""}).call
	for _, file := range []string{"/f", "/empty"} {
		content := map[string]string{"/f": "0123456789", "/empty": ""}[file]
		for _, header := range []string{
			"", "bytes=0-0", "bytes=0-9", "bytes=0-10", "bytes=9-", "bytes=10-", "bytes=11-", "bytes=3-5", "bytes=-1", "bytes=-10", "bytes=-11", "bytes=-0",
			"bytes=0-99999999999999999999", "bytes=99999999999999999999-",
		} {
			want := httptest.NewRecorder()
			req := httptest.NewRequest("GET", "/", nil)
			if header != "" {
				req.Header.Set("Range", header)
			}
			http.ServeContent(want, req, "f", noon, strings.NewReader(content))
			if content == "" && header != "" {
				want.Code = http.StatusRequestedRangeNotSatisfiable // of an empty file ServeContent gives the whole
			}
			if header == "bytes=-0" {
				want.Code = 416 // ServeContent gives no bytes at all as a part
			}
			if strings.Contains(header, "9999999") {
				want.Code = map[bool]int{true: 206, false: 416}[strings.HasPrefix(header, "bytes=0-") && content != ""] // ServeContent can't read these
			}
			c := r.ask(t, "GET", r.files("/content?path="+file), nil, "Range", header)
			if c.StatusCode != want.Code {
				t.Errorf("%s of %s: %s, want %d", header, file, c.Status, want.Code)
				continue
			}
			if c.StatusCode == 416 {
				c.fails(t, space.CodeRange, "Range")
				continue
			}
			if strings.Contains(header, "99999999") {
				continue
			}
			if got := c.body(t); got != want.Body.String() || c.Header.Get("Content-Range") != want.Header().Get("Content-Range") {
				t.Errorf("%s of %s: %q %s, want %q %s", header, file, got, c.Header.Get("Content-Range"), want.Body, want.Header().Get("Content-Range"))
			}
		}
	}
	r.ask(t, "GET", r.files("/content?path=/f"), nil, "Range", "bytes=0-1"+strings.Repeat(",3-4", 64)).fails(t, space.CodeInvalid, "Range")
	for _, header := range []string{"bytes=0-1,3-4", "lines=0-1", "bytes=5-3", "bytes=-", "bytes=a-b", "bytes", "bytes=+1-2", "bytes=1-2-3"} {
		if c := r.ask(t, "GET", r.files("/content?path=/f"), nil, "Range", header); c.StatusCode != 200 || c.body(t) != "0123456789" {
			t.Errorf("%s: %s", header, c.Status)
		}
	}
}

// TestRanges: whatever a header asks for, what is answered lies in the file, is where the header says and isn't empty.
func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Uint64Range(0, 50).Draw(t, "size")
		a, b := rapid.Uint64Range(0, 60).Draw(t, "a"), rapid.Uint64Range(0, 60).Draw(t, "b")
		header, first, last := "", uint64(0), int64(size)-1
		switch rapid.IntRange(0, 2).Draw(t, "form") {
		case 0:
			header, first, last = fmt.Sprintf("bytes=%d-%d", a, b), a, int64(b)
		case 1:
			header, first = fmt.Sprintf("bytes=%d-", a), a
		case 2:
			header, first = fmt.Sprintf("bytes=-%d", b), size-min(b, size)
		}
		last = min(last, int64(size)-1)
		s := parseRange([]string{header})
		from, to, err := s.of(size)
		switch {
		case s.whole:
			if b >= a || from != 0 || to != size {
				t.Fatalf("%s of %d: the whole, %d-%d", header, size, from, to)
			}
		case err != nil:
			if int64(first) <= last {
				t.Fatalf("%s of %d: %v", header, size, err)
			}
		case from != first || int64(to) != last+1 || from >= to || to > size:
			t.Fatalf("%s of %d: %d-%d", header, size, from, to)
		}
	})
}

func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-1", "bytes=-1", "bytes=1-", "bytes=99999999999999999999-", "", "bytes=-", "bytes=0-9223372036854775807"} {
		f.Add(s, uint64(10))
	}
	f.Fuzz(func(t *testing.T, header string, size uint64) {
		size = min(size, maxOffset)
		s := parseRange([]string{header})
		from, to, err := s.of(size)
		if err == nil && (from > to || to > size || !s.whole && from == to) {
			t.Errorf("%q of %d: %d-%d", header, size, from, to)
		}
		if r := s.read("/f"); !s.suffix && (r.GetOffset() > maxOffset || r.GetOffset()+r.GetLength() < r.GetOffset()) {
			t.Errorf("%q asks the guest for %v", header, r)
		}
	})
}

func TestConditions(t *testing.T) {
	r := newRig(t)
	d := newDisk(map[string]string{"/f": "0123456789"})
	r.call = d.call
	at := r.files("/content?path=/f")
	head := r.ask(t, "HEAD", at, nil)
	tag := head.Header.Get("ETag")
	if head.StatusCode != 200 || head.ContentLength != 10 || tag == "" {
		t.Fatalf("%s %v", head.Status, head.Header)
	}
	later, earlier := noon.Add(time.Hour).Format(http.TimeFormat), noon.Add(-time.Hour).Format(http.TimeFormat)
	for _, tt := range []struct {
		headers []string
		status  int
		body    string
	}{
		{[]string{"If-None-Match", tag}, 304, ""},
		{[]string{"If-None-Match", `"x", W/` + tag}, 304, ""},
		{[]string{"If-None-Match", "*"}, 304, ""},
		{[]string{"If-None-Match", `"x"`, "If-Modified-Since", later}, 200, "0123456789"},
		{[]string{"If-Modified-Since", noon.Format(http.TimeFormat)}, 304, ""},
		{[]string{"If-Modified-Since", earlier}, 200, "0123456789"},
		{[]string{"If-Modified-Since", "yesterday"}, 200, "0123456789"},
		{[]string{"Range", "bytes=2-3", "If-Range", tag}, 206, "23"},
		{[]string{"Range", "bytes=2-3", "If-Range", `"x"`}, 200, "0123456789"},
		{[]string{"Range", "bytes=2-3", "If-Range", noon.Format(http.TimeFormat)}, 206, "23"},
		{[]string{"Range", "bytes=2-3", "If-Range", earlier}, 200, "0123456789"},
		{[]string{"Range", "bytes=-2", "If-Range", `"x"`}, 200, "0123456789"},
	} {
		if c := r.ask(t, "GET", at, nil, tt.headers...); c.StatusCode != tt.status || c.body(t) != tt.body || c.Header.Get("ETag") != tag {
			t.Errorf("%v: %s", tt.headers, c.Status)
		}
	}
	if c := r.ask(t, "HEAD", at, nil, "If-None-Match", tag); c.StatusCode != 304 {
		t.Errorf("HEAD: %s", c.Status)
	}
	for _, name := range preconditions {
		r.ask(t, "PUT", at, strings.NewReader("x"), name, "*").fails(t, space.CodeInvalid, name)
	}
	if d.files["/f"] != "0123456789" {
		t.Error("it was written all the same")
	}
}

// TestFileThatChangesWhileItIsRead: what was announced comes exactly, or the connection is cut.
func TestFileThatChangesWhileItIsRead(t *testing.T) {
	r := newRig(t)
	for name, tt := range map[string]struct {
		sends  int
		broken bool
	}{"shorter": {5, true}, "longer": {15, false}, "as it was": {10, false}} {
		r.call = func(_ context.Context, _ *sandboxv1.Action, s *nodeCall) error {
			sendEntry(s, &sandboxv1.Entry{Path: "/f", Type: "file", Size: 10})
			return sendData(s, []byte(repeat("x", tt.sends)))
		}
		b, err := r.fetch(t, r.files("/content?path=/f"))
		if (err != nil) != tt.broken || !tt.broken && string(b) != repeat("x", 10) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	r.call = func(_ context.Context, _ *sandboxv1.Action, s *nodeCall) error {
		sendEntry(s, &sandboxv1.Entry{Path: "/f", Type: "file", Size: 10})
		sendData(s, []byte("12345"))
		return space.Errorf(space.CodeExecutionLost, "gone")
	}
	if _, err := r.fetch(t, r.files("/content?path=/f")); err == nil {
		t.Error("a loss in the middle looks like the end")
	}
}

func TestSignedURLs(t *testing.T) {
	r := newRig(t)
	r.call = newDisk(map[string]string{"/f": "hello"}).call
	at := r.files("/content?path=/f&user=root&expires=1900000000&signature=good")
	if got := r.ask(t, "GET", at, nil, "Authorization", "").body(t); got != "hello" {
		t.Error(got)
	}
	want := &controlv1.ResolveSandboxRequest{Sandbox: r.sandbox, Signed: &controlv1.SignedURL{Path: "/f", Operation: "read", User: "root", ExpiresUnix: 1900000000, Signature: "good"}}
	if diff := cmp.Diff(want, r.asked[0], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if r.lastAction(t).GetUser() != "root" {
		t.Errorf("%v", r.lastAction(t))
	}
	r.ask(t, "PUT", at, strings.NewReader("x"), "Authorization", "").want(t, 200, nil)
	want.Signed.Operation = "write"
	if diff := cmp.Diff(want, r.asked[len(r.asked)-1], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	r.ask(t, "HEAD", at, nil, "Authorization", "").want(t, 200, nil)
	r.ask(t, "GET", at, nil).fails(t, space.CodeUnauthenticated, "") // with a token as well
	r.ask(t, "PUT", at+"&mode=4755", strings.NewReader("x"), "Authorization", "").fails(t, space.CodeInvalid, "mode")
	r.ask(t, "GET", strings.Replace(at, "good", "bad", 1), nil, "Authorization", "").fails(t, space.CodeUnauthenticated, "")
	r.ask(t, "GET", strings.Replace(at, "1900000000", "soon", 1), nil, "Authorization", "").fails(t, space.CodeInvalid, "expires")
	r.ask(t, "GET", strings.Replace(at, "good", repeat("x", 300), 1), nil, "Authorization", "").fails(t, space.CodeInvalid, "signature")
	r.stop()
	if strings.Contains(r.log.String(), "signature=") || strings.Contains(r.log.String(), "good") {
		t.Errorf("the log has a signature: %s", r.log.String())
	}
}

// TestActions has each operation arrive at the node as the action that it is.
func TestActions(t *testing.T) {
	r := newRig(t)
	entry := &sandboxv1.Entry{Path: "/b", Type: "directory", Mode: 0o2755, Target: ""}
	for _, tt := range []struct {
		method, rest, body string
		want               *sandboxv1.Action
		status             int
	}{
		{"GET", "/stat?path=a", "", &sandboxv1.Action{User: "user", Action: &sandboxv1.Action_Stat{Stat: &sandboxv1.Stat{Path: "a"}}}, 200},
		{"GET", "/stat?path=/a&user=root", "", &sandboxv1.Action{User: "root", Action: &sandboxv1.Action_Stat{Stat: &sandboxv1.Stat{Path: "/a"}}}, 200},
		{"POST", "/mkdir", `{"path":"/b"}`, &sandboxv1.Action{User: "user", Action: &sandboxv1.Action_MakeDirectory{MakeDirectory: &sandboxv1.MakeDirectory{Path: "/b"}}}, 200},
		{"POST", "/mkdir?user=root", `{"path":"/b","mode":"1777"}`, &sandboxv1.Action{User: "root", Action: &sandboxv1.Action_MakeDirectory{MakeDirectory: &sandboxv1.MakeDirectory{Path: "/b", Mode: proto.Uint32(0o1777)}}}, 200},
		{"POST", "/rename", `{"from":"/a","to":"/b"}`, &sandboxv1.Action{User: "user", Action: &sandboxv1.Action_Rename{Rename: &sandboxv1.Rename{From: "/a", To: "/b"}}}, 200},
		{"DELETE", "?path=/a", "", &sandboxv1.Action{User: "user", Action: &sandboxv1.Action_Remove{Remove: &sandboxv1.Remove{Path: "/a"}}}, 204},
		{"DELETE", "?path=/a&recursive=true", "", &sandboxv1.Action{User: "user", Action: &sandboxv1.Action_Remove{Remove: &sandboxv1.Remove{Path: "/a", Recursive: true}}}, 204},
		{"PATCH", "?path=/a", `{"mode":"0600"}`, &sandboxv1.Action{User: "user", Action: &sandboxv1.Action_Change{Change: &sandboxv1.Change{Path: "/a", Mode: proto.Uint32(0o600)}}}, 200},
		{"PATCH", "?path=/a", `{"owner":"root","group":"10","recursive":true}`, &sandboxv1.Action{User: "user", Action: &sandboxv1.Action_Change{Change: &sandboxv1.Change{Path: "/a", Owner: "root", Group: "10", Recursive: true}}}, 200},
	} {
		r.call = func(_ context.Context, _ *sandboxv1.Action, s *nodeCall) error {
			if tt.status == 204 {
				return nil
			}
			return sendEntry(s, entry)
		}
		var got httpapi.FileEntry
		var into any
		if tt.status == 200 {
			into = &got
		}
		r.ask(t, tt.method, r.files(tt.rest), strings.NewReader(tt.body)).want(t, tt.status, into)
		if diff := cmp.Diff(tt.want, r.lastAction(t), protocmp.Transform()); diff != "" {
			t.Errorf("%s %s: %s", tt.method, tt.rest, diff)
		}
		if into != nil && (got.Path != "/b" || got.Type != "directory" || got.Mode != "2755") {
			t.Errorf("%+v", got)
		}
	}
}

func TestList(t *testing.T) {
	r := newRig(t)
	messages, each := 5, 700
	r.call = func(_ context.Context, a *sandboxv1.Action, s *nodeCall) error {
		for i := range messages {
			m := &sandboxv1.Entries{Truncated: i == messages-1}
			for j := range each {
				m.Entries = append(m.Entries, &sandboxv1.Entry{Path: "/" + strconv.Itoa(i*each+j), Type: "weird"})
			}
			if err := s.Send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Entries{Entries: m}}); err != nil {
				return err
			}
		}
		return nil
	}
	var got httpapi.FileList
	r.ask(t, "GET", r.files("/list?path=/&depth=3"), nil).want(t, 200, &got)
	if len(got.Entries) != messages*each || !got.Truncated || got.Entries[699].Path != "/699" || got.Entries[0].Type != "other" {
		t.Errorf("%d entries, %v", len(got.Entries), got.Truncated)
	}
	if d := r.lastAction(t).GetList().GetDepth(); d != 3 {
		t.Errorf("depth %d", d)
	}
	messages, each = 0, 0
	if c := r.ask(t, "GET", r.files("/list?path=/"), nil); c.body(t) != "{\"entries\":[],\"truncated\":false}\n" {
		t.Error("an empty directory")
	}
	messages, each = 20, 700
	r.ask(t, "GET", r.files("/list?path=/"), nil).fails(t, space.CodeGuest, "")
}

func TestBadInput(t *testing.T) {
	r := newRig(t)
	r.call = nothing
	long := repeat("a", maxPath+1)
	for _, tt := range []struct {
		method, path, body string
		code               space.Code
		field              string
	}{
		{"GET", r.files("/stat"), "", space.CodeInvalid, "path"},
		{"GET", r.files("/stat?path="), "", space.CodeInvalid, "path"},
		{"GET", r.files("/stat?path=/a%00b"), "", space.CodeInvalid, "path"},
		{"GET", r.files("/stat?path=%ff"), "", space.CodeInvalid, "path"},
		{"GET", r.files("/stat?path=" + long), "", space.CodeInvalid, "path"},
		{"GET", r.files("/stat?path=" + repeat("a", 10_000)), "", space.CodeInvalid, "path"},
		{"GET", r.files("/stat?path=/a&path=/b"), "", space.CodeInvalid, "path"},
		{"GET", r.files("/stat?path=/a&depth=1"), "", space.CodeInvalid, "depth"},
		{"GET", r.files("/stat?path=/a;b=c"), "", space.CodeInvalid, "query"},
		{"GET", r.files("/stat?path=%zz"), "", space.CodeInvalid, "query"},
		{"GET", r.files("/stat?path=/a&user=a:b:c"), "", space.CodeInvalid, "user"},
		{"GET", r.files("/stat?path=/a&user=" + repeat("a", 65)), "", space.CodeInvalid, "user"},
		{"GET", r.files("/stat?path=/a"), "x", space.CodeInvalid, "body"},
		{"GET", r.files("/list?path=/a&depth=0"), "", space.CodeInvalid, "depth"},
		{"GET", r.files("/list?path=/a&depth=65"), "", space.CodeInvalid, "depth"},
		{"GET", r.files("/list?path=/a&depth=-1"), "", space.CodeInvalid, "depth"},
		{"GET", r.files("/list?path=/a&depth="), "", space.CodeInvalid, "depth"},
		{"DELETE", r.files("?path=/a&recursive=yes"), "", space.CodeInvalid, "recursive"},
		{"DELETE", r.files("?path=/a&recursive="), "", space.CodeInvalid, "recursive"},
		{"PUT", r.files("/content?path=/a&expires=soon"), "", space.CodeInvalid, "expires"},
		{"GET", r.files("/content?path=/a&expires=1000000000000"), "", space.CodeInvalid, "expires"},
		{"PUT", r.files("/content?path=/a&mode=9"), "", space.CodeInvalid, "mode"},
		{"PUT", r.files("/content?path=/a&mode=77777"), "", space.CodeInvalid, "mode"},
		{"PUT", r.files("/content?path=/a&mode=-44"), "", space.CodeInvalid, "mode"},
		{"POST", r.files("/mkdir"), ``, space.CodeInvalid, ""},
		{"POST", r.files("/mkdir"), `{}`, space.CodeInvalid, "path"},
		{"POST", r.files("/mkdir"), `[]`, space.CodeInvalid, ""},
		{"POST", r.files("/mkdir"), `{"path":"/a"}{}`, space.CodeInvalid, ""},
		{"POST", r.files("/mkdir"), `{"path":"/a"`, space.CodeInvalid, ""},
		{"POST", r.files("/mkdir"), `{"path":"/a","path":"/b"}`, space.CodeInvalid, "path"},
		{"POST", r.files("/mkdir"), `{"path":null}`, space.CodeInvalid, "path"},
		{"POST", r.files("/mkdir"), `{"path":7}`, space.CodeInvalid, "path"},
		{"POST", r.files("/mkdir"), `{"Path":"/a"}`, space.CodeInvalid, "Path"},
		{"POST", r.files("/mkdir"), `{"path":"/a\u0000"}`, space.CodeInvalid, "path"},
		{"POST", r.files("/mkdir"), "{\"path\":\"\xff\"}", space.CodeInvalid, ""},
		{"POST", r.files("/mkdir"), `{"path":"/a","mode":493}`, space.CodeInvalid, "mode"},
		{"POST", r.files("/mkdir"), `{"path":"/a","mode":"rwx"}`, space.CodeInvalid, "mode"},
		{"POST", r.files("/mkdir"), `{"path":"` + repeat("a", 70<<10) + `"}`, space.CodeTooLarge, ""},
		{"POST", r.files("/rename"), `{"from":"/a"}`, space.CodeInvalid, "to"},
		{"POST", r.files("/rename"), `{"to":"/a"}`, space.CodeInvalid, "from"},
		{"PATCH", r.files("?path=/a"), `{}`, space.CodeInvalid, "mode"},
		{"PATCH", r.files("?path=/a"), `{"recursive":true}`, space.CodeInvalid, "mode"},
		{"PATCH", r.files("?path=/a"), `{"owner":""}`, space.CodeInvalid, "owner"},
		{"PATCH", r.files("?path=/a"), `{"group":"a b"}`, space.CodeInvalid, "group"},
		{"GET", "/v1/sandboxes/sbx_1/files/stat?path=/a", "", space.CodeNotFound, ""},
		{"GET", "/v1/sandboxes/" + r.session + "/files/stat?path=/a", "", space.CodeNotFound, ""},
		{"GET", "/v1/sandboxes/%00/files/stat?path=/a", "", space.CodeNotFound, ""},
		{"GET", r.files("/nothing?path=/a"), "", space.CodeNotFound, ""},
		{"POST", r.files("/stat?path=/a"), "", space.CodeMethod, ""},
	} {
		var body io.Reader
		if tt.body != "" {
			body = strings.NewReader(tt.body)
		}
		c := r.ask(t, tt.method, tt.path, body)
		t.Run(tt.method+" "+space.Clip(tt.path), func(t *testing.T) { c.fails(t, tt.code, tt.field) })
	}
	if len(r.actions) != 0 {
		t.Errorf("%d of them reached the node", len(r.actions))
	}
}

func TestRefusalsOfTheGuest(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		err   error
		field string
	}{
		{space.Errorf(space.CodeNotFound, "there is no /a"), ""}, {space.Errorf(space.CodeForbidden, "user may not read /a"), ""},
		{space.FieldErrorf("path", "is a directory"), "path"}, {space.Errorf(space.CodeGuest, "input/output error"), ""},
		{space.Errorf(space.CodeExecutionLost, "gone"), ""}, {space.Errorf(space.CodeConflict, "stopped"), ""}, {space.Errorf(space.CodeUnavailable, "/run/secret.sock"), ""},
	} {
		r.call = func(context.Context, *sandboxv1.Action, *nodeCall) error { return tt.err }
		for method, rest := range map[string]string{"GET": "/content?path=/a", "PUT": "/content?path=/a", "DELETE": "?path=/a"} {
			c := r.ask(t, method, r.files(rest), nil)
			if c.StatusCode != space.CodeOf(tt.err).HTTPStatus() {
				t.Errorf("%s, %v: %s", method, tt.err, c.Status)
			}
			if p := c.problem(t); p.Code != string(space.CodeOf(tt.err)) || p.Field != tt.field || strings.Contains(p.Detail, "secret") {
				t.Errorf("%s, %v: %+v", method, tt.err, p)
			}
		}
	}
	for name, answer := range map[string]*sandboxv1.CallResponse{
		"nothing in it": {}, "something else": {Response: &sandboxv1.CallResponse_Received{Received: 1}},
	} {
		r.call = func(_ context.Context, _ *sandboxv1.Action, s *nodeCall) error { return s.Send(answer) }
		for method, rest := range map[string]string{"GET": "/stat?path=/a", "PUT": "/archive?path=/a"} {
			var body io.Reader
			if method == "PUT" {
				body = strings.NewReader("x")
			}
			if c := r.ask(t, method, r.files(rest), body); c.StatusCode != 422 {
				t.Errorf("%s: %s %s: %s", name, method, rest, c.Status)
			}
		}
	}
	if p := r.ask(t, "PUT", r.files("/archive?path=/a"), nil).problem(t); p.Code != string(space.CodeInvalid) {
		t.Errorf("an archive without a body: %+v", p)
	}
}

func TestStaleRouteOfACallIsResolvedOnce(t *testing.T) {
	r := newRig(t)
	calls := 0
	r.call = func(_ context.Context, _ *sandboxv1.Action, s *nodeCall) error {
		if calls++; calls == 1 {
			return space.Errorf(space.CodeRouteStale, "another incarnation")
		}
		return sendEntry(s, &sandboxv1.Entry{Path: "/a"})
	}
	r.ask(t, "GET", r.files("/stat?path=/a"), nil).want(t, 200, nil)
	if len(r.asked) != 2 {
		t.Errorf("resolved %d times", len(r.asked))
	}
	r.call = func(context.Context, *sandboxv1.Action, *nodeCall) error {
		return space.Errorf(space.CodeRouteStale, "another")
	}
	r.ask(t, "GET", r.files("/stat?path=/a"), nil).fails(t, space.CodeRouteStale, "")
	if len(r.asked) != 4 {
		t.Errorf("resolved %d times", len(r.asked))
	}
}

func TestAnotherSandboxsRoute(t *testing.T) {
	r := newRig(t)
	r.call = nothing
	r.ask(t, "GET", "/v1/sandboxes/"+space.NewID(space.PrefixSandbox)+"/files/stat?path=/a", nil).fails(t, space.CodeForbidden, "")
}

func TestArchives(t *testing.T) {
	r := newRig(t)
	data := make([]byte, 300_001)
	rand.Read(data)
	r.call = func(_ context.Context, a *sandboxv1.Action, s *nodeCall) error {
		if a.GetReadArchive() != nil {
			return sendData(s, data)
		}
		b, err := upload(s)
		if err != nil {
			return err
		}
		return s.Send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Unpacked{Unpacked: &sandboxv1.Unpacked{Entries: 3, Bytes: uint64(len(b))}}})
	}
	c := r.ask(t, "GET", r.files("/archive?path=/src/"), nil)
	if got := c.body(t); got != string(data) || c.Header.Get("Content-Type") != "application/x-tar" || c.Header.Get("Content-Disposition") != "attachment; filename=src.tar" {
		t.Errorf("%d bytes, %v", len(got), c.Header)
	}
	var got httpapi.ArchiveUnpacked
	r.ask(t, "PUT", r.files("/archive?path=/dst"), bytes.NewReader(data)).want(t, 200, &got)
	if got.Entries != 3 || got.Bytes != int64(len(data)) {
		t.Errorf("%+v", got)
	}
	r.call = func(_ context.Context, _ *sandboxv1.Action, s *nodeCall) error {
		sendData(s, data[:100])
		return space.Errorf(space.CodeGuest, "input/output error")
	}
	if _, err := r.fetch(t, r.files("/archive?path=/src")); err == nil {
		t.Error("a broken archive looks whole")
	}
	if proto.Size(r.lastAction(t)) == 0 {
		t.Error("no action")
	}
}

// TestEveryRequestLeavesALine has calls that succeed and one that fails: each is in the log with its route, status and duration, and none with what the
// client named or brought.
func TestEveryRequestLeavesALine(t *testing.T) {
	r := newRig(t)
	d := newDisk(map[string]string{"/canary": "canary"})
	r.call = d.call
	want := map[string]int{}
	for _, x := range []struct {
		method, at string
		status     int
	}{
		{"GET", "/content?path=/canary", 200}, {"PUT", "/content?path=/canary2", 201}, {"HEAD", "/content?path=/canary", 200}, {"GET", "/content?path=/canary/none", 404},
	} {
		c := r.ask(t, x.method, r.files(x.at), strings.NewReader(map[string]string{"PUT": "canary"}[x.method]))
		if c.StatusCode != x.status {
			t.Fatalf("%s %s: %s", x.method, x.at, c.Status)
		}
		c.body(t)
		want[fmt.Sprintf("%s /v1/sandboxes/{sandbox}/files/content %d", x.method, x.status)] = 1
	}
	r.stop() // what is being answered is logged then
	got := map[string]int{}
	for line := range strings.Lines(r.log.String()) {
		var l struct {
			Msg, Method, Route string
			Status             int
			Duration           *float64 `json:"duration_ms"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || strings.Contains(line, "canary") {
			t.Errorf("%s: %v", line, err)
		}
		if l.Msg == "request" && l.Duration != nil {
			got[fmt.Sprintf("%s %s %d", l.Method, l.Route, l.Status)]++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestCompressedBodiesAreRefused tries each operation that takes a body.
func TestCompressedBodiesAreRefused(t *testing.T) {
	r := newRig(t)
	for pattern, o := range operations {
		if !o.body {
			continue
		}
		method, path, _ := strings.Cut(pattern, " ")
		token := r.box
		if o.accepts&sandboxToken == 0 {
			token = r.put
		}
		path = strings.NewReplacer("{sandbox}", r.sandbox, "{session}", r.session, "{upload}", r.upload).Replace(path)
		c := r.ask(t, method, path, strings.NewReader("{}"), "Authorization", "Bearer "+token, "Content-Encoding", "gzip", "Content-Type", "application/json")
		c.fails(t, space.CodeMediaType, "Content-Encoding")
	}
}
