package client

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// issuer is a platform that issues tokens of one sandbox, which expire, and refuses a call with one that isn't valid. It's called in this process.
type issuer struct {
	mu     sync.Mutex
	valid  map[string]time.Time // by secret: until when
	issued int
	most   int // that were valid at once
	stdin  []byte
	watch  string // what a watch answers
}

func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r = r.Clone(r.Context())
	if r.Body == nil {
		r.Body = http.NoBody // as a server has it
	}
	i.ServeHTTP(w, r)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func (i *issuer) live() (n int) {
	for _, until := range i.valid {
		if time.Now().Before(until) {
			n++
		}
	}
	return n
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	const tokens = "/v1/sandboxes/sbx_1/tokens"
	bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.Method == http.MethodPost && r.URL.Path == tokens && bearer == "space_key":
		i.issued++
		var life int
		if _, err := fmt.Fscanf(r.Body, `{"expires_in_seconds":%d`, &life); err != nil {
			panic(err)
		}
		i.valid[fmt.Sprint("secret", i.issued)] = time.Now().Add(time.Duration(life) * time.Second)
		i.most = max(i.most, i.live())
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"secret":"secret%d","url":"http://edge.invalid/v1/sandboxes/sbx_1","token":{"id":"tok%d","sandbox":"sbx_1","created_at":"2026-01-01T00:00:00Z","expires_at":"2026-01-01T00:00:00Z"}}`, i.issued, i.issued)
	case r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, tokens) && bearer == "space_key":
		delete(i.valid, "secret"+strings.TrimPrefix(r.URL.Path, tokens+"/tok"))
		w.WriteHeader(http.StatusNoContent)
	case !time.Now().Before(i.valid[bearer]):
		problem(http.StatusUnauthorized, "token_expired")(w, r)
	default:
		i.serve(w, r)
	}
}

// serve is the data plane.
func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/sessions/ses_1/stdin":
		b, _ := io.ReadAll(r.Body)
		i.stdin = append(i.stdin, b...)
		fmt.Fprintf(w, `{"received":%d}`, len(i.stdin))
	case r.URL.Path == "/v1/sessions/ses_1/attach" && r.Header.Get("Last-Event-ID") == "":
		events("stdout 1 a", `ended  {"reason":"token_ended"}`)(w, r)
		clear(i.valid)
	case r.URL.Path == "/v1/sessions/ses_1/attach":
		events(`exit 1 {"code":0}`)(w, r)
	case strings.HasSuffix(r.URL.Path, "/files/watch"):
		events(`ready  {}`, i.watch)(w, r)
	case strings.HasSuffix(r.URL.Path, "/sessions"):
		fmt.Fprint(w, `{"session":{"id":"ses_1","sandbox":"sbx_1","state":"created","created_at":"2026-01-01T00:00:00Z"},"attachment":{}}`)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func issued(t *testing.T) (*issuer, *Plane) {
	t.Helper()
	i := &issuer{valid: map[string]time.Time{}}
	c, err := New("http://api.invalid", "space_key", WithHTTPClient(&http.Client{Transport: i}))
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Plane(t.Context(), "sbx_1")
	if err != nil {
		t.Fatal(err)
	}
	return i, p
}

// TestPlaneIsUsedForDays uses a plane again and again: its tokens are replaced in time, a few are valid at once, and none when it's closed.
func TestPlaneIsUsedForDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, p := issued(t)
		for began := time.Now(); time.Since(began) < 50*time.Hour; time.Sleep(time.Minute) {
			if err := p.Signal(t.Context(), "ses_1", "SIGINT"); err != nil {
				t.Fatal(err)
			}
		}
		if i.most > 2 || i.issued < 100 {
			t.Errorf("%d tokens were issued, %d were valid at once", i.issued, i.most)
		}
		if err := p.Close(t.Context()); err != nil || i.live() != 0 {
			t.Errorf("%d tokens are left: %v", i.live(), err)
		}
	})
}

// TestPlaneFindsItsTokenRefused: somebody has revoked the token, or the machine here slept; requests that can be made again are, and input goes on.
func TestPlaneFindsItsTokenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, p := issued(t)
		clear(i.valid)
		if err := p.Resize(t.Context(), "ses_1", 24, 80); err != nil {
			t.Error(err)
		}
		clear(i.valid)
		if n, err := p.SendStdin(t.Context(), "ses_1", 0, strings.NewReader("keys"), true); err != nil || n != 4 || string(i.stdin) != "keys" {
			t.Errorf("sent %d, %q: %v", n, i.stdin, err)
		}
		clear(i.valid)
		if _, err := p.WriteFile(t.Context(), "/f", io.MultiReader(strings.NewReader("once"))); codeIn(err) != "token_expired" {
			t.Errorf("a body that can't be read again: %v", err)
		}
	})
}

// TestGivenTokenRunsACommand: a sandbox token alone creates a session and follows it.
func TestGivenTokenRunsACommand(t *testing.T) {
	i := &issuer{valid: map[string]time.Time{"given": time.Now().Add(time.Hour)}}
	p, err := NewPlane("http://edge.invalid", "sbx_1", "given", WithHTTPClient(&http.Client{Transport: i}))
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.CreateSession(t.Context(), SessionCreate{Argv: &[]string{"true"}})
	if err != nil || s.Session.Id != "ses_1" {
		t.Fatalf("%+v: %v", s, err)
	}
	var got bytes.Buffer
	for e, err := range p.Attach(t.Context(), "ses_1") {
		fmt.Fprintf(&got, "%s %s %s|", e.Type, e.Data, codeIn(err))
	}
	if got.String() != "stdout a |  token_expired|" {
		t.Errorf("got %q", got.String())
	}
	if err := p.Close(t.Context()); err != nil || i.issued != 0 {
		t.Errorf("close: %v, %d tokens issued", err, i.issued)
	}
}

// TestPlaneFollowsBeyondItsToken: a stream that its token's end has ended goes on with another token, from where it was.
func TestPlaneFollowsBeyondItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := issued(t)
		var got []EventType
		for e, err := range p.Attach(t.Context(), "ses_1") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Type)
		}
		if fmt.Sprint(got) != "[stdout exit]" {
			t.Errorf("got %v", got)
		}
	})
}

// TestWatchHasATokenOfItsOwn, for longer than others, which is revoked when it's over.
func TestWatchHasATokenOfItsOwn(t *testing.T) {
	for reason, want := range map[string]string{"token_ended": "unauthenticated", "interrupted": "unavailable"} {
		synctest.Test(t, func(t *testing.T) {
			i, p := issued(t)
			i.watch = `ended  {"reason":"` + reason + `"}`
			for e, err := range p.WatchFiles(t.Context(), "/", true) {
				if e.Kind == "ready" && !i.valid["secret2"].After(time.Now().Add(20*time.Hour)) {
					t.Errorf("it's valid until %s", i.valid["secret2"])
				}
				if err != nil && codeIn(err) != want {
					t.Errorf("%s: %v", reason, err)
				}
			}
			if i.issued != 2 || i.live() != 1 {
				t.Errorf("%d tokens issued, %d valid", i.issued, i.live())
			}
		})
	}
}
