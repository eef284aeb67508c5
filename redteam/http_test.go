//go:build e2e

package redteam

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// direct talks to the platform without keeping connections or following redirects.
var direct = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 8 << 20

// reply is an answer.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask sends a request with a bearer token, "" for none, and more headers as pairs.
func ask(t *testing.T, method, to, bearer, body string, headers ...string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(t.Context()), 2*callDeadline, errors.New("no answer comes")) // clean-ups ask as well
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return answerTo(t, req, body)
}

// answerTo does a request. A stream of events is read no further than its header.
func answerTo(t *testing.T, req *http.Request, body string) reply {
	t.Helper()
	resp, err := direct.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer resp.Body.Close()
	r := reply{status: resp.StatusCode, header: resp.Header}
	if resp.Header.Get("Content-Type") == "text/event-stream" || resp.StatusCode == http.StatusSwitchingProtocols {
		return r
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	r.body = string(b)
	checkError(t, r, req.URL.String(), body, strings.Join(req.Header.Values("Authorization"), " "))
	return r
}

// raw sends bytes on a connection of their own and reads the answers until the platform closes it. The first one's status is returned, 0 if
// none came.
func raw(t *testing.T, to, request string) (status int, all string) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialTimeout("tcp", u.Host, callDeadline)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(callDeadline))
	go func() { // the platform may answer before it has read everything
		io.WriteString(conn, request)
	}()
	var seen bytes.Buffer
	resp, err := http.ReadResponse(bufio.NewReader(io.TeeReader(io.LimitReader(conn, maxAnswer), &seen)), nil)
	if err != nil {
		return 0, seen.String()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	checkError(t, reply{resp.StatusCode, resp.Header, string(b)}, to, request, "")
	return resp.StatusCode, seen.String()
}

func (r reply) want(t *testing.T, statuses ...int) reply {
	t.Helper()
	for _, s := range statuses {
		if r.status == s {
			return r
		}
	}
	t.Fatalf("status %d %s, want %v", r.status, clip(r.body), statuses)
	return r
}

// code is the stable name of the error that an answer is, "" if it's none.
func (r reply) code() string {
	var p struct{ Code string }
	if json.Unmarshal([]byte(r.body), &p) != nil || r.status < 400 {
		return ""
	}
	return p.Code
}

// same is an answer without what tells requests apart: their id and the time.
func (r reply) same() (status int, header http.Header, body string) {
	h := r.header.Clone()
	id := h.Get("X-Request-Id")
	h.Del("X-Request-Id")
	h.Del("Date")
	if id != "" {
		return r.status, h, strings.ReplaceAll(r.body, id, "")
	}
	return r.status, h, r.body
}

func decode[T any](t *testing.T, r reply) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("%v in %s", err, clip(r.body))
	}
	return v
}

// event is one server-sent event.
type event struct{ name, id, data string }

func (e event) bytes(t *testing.T) string {
	t.Helper()
	var d struct{ Data string }
	if err := json.Unmarshal([]byte(e.data), &d); err != nil {
		t.Fatal(err)
	}
	b, err := base64.StdEncoding.DecodeString(d.Data)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// follow reads a stream of events to its end, or to callDeadline.
func follow(t *testing.T, to, bearer string, headers ...string) iter.Seq[event] {
	t.Helper()
	req, err := http.NewRequestWithContext(bounded(t), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := direct.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %d %s", to, resp.StatusCode, b)
	}
	return func(yield func(event) bool) {
		defer resp.Body.Close()
		var e event
		lines := bufio.NewScanner(resp.Body)
		for lines.Buffer(nil, maxAnswer); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				e.name = value
			case "id":
				e.id = value
			case "data":
				e.data = value
			case "":
				if e.name != "" && !yield(e) {
					return
				}
				e = event{}
			}
		}
	}
}

func escape(s string) string { return url.QueryEscape(s) }

func clip(s string) string { return s[:min(len(s), 400)] }
