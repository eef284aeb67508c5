//go:build e2e

package redteam

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/space-platform/space/internal/instance"
)

// leak is what no error may tell, each with what it would give away.
type leak struct {
	what string
	re   *regexp.Regexp
}

var leaks = []leak{
	{"a stack trace", regexp.MustCompile(`goroutine \d|panic:|runtime error|\.go:\d+|0xc0[0-9a-f]{8}|nil pointer`)},
	{"the name of code", regexp.MustCompile(`github\.com/|internal/(control|edge|node|host|guest|postgres)|\*?[a-z]+v1\.[A-Z]|strict[ -]handler`)},
	{"SQL", regexp.MustCompile(`(?i)SQLSTATE|\bpq:|pgx|postgres|violates|duplicate key|relation "|constraint "|\bSELECT\b.*\bFROM\b|\bINSERT INTO\b|\bUPDATE\b.*\bSET\b`)},
	{"a socket or an address inside", regexp.MustCompile(`rpc\.sock|\.sock\b|dial (tcp|unix)|connection refused|broken pipe|connection reset|127\.0\.0\.1|\[::1\]|http://(control|node|manager|host)\b|rpc error|connect: `)},
	{"an execution or a placement", regexp.MustCompile(`\b(exe|slt|nod)_[a-z2-7]{10,}|\bepoch\b|\bpod_uid\b`)},
	{"a process or a file descriptor", regexp.MustCompile(`(?i)\bpid \d+|/proc/self/fd|/proc/\d+|\bqemu\b|firecracker|\bspaced-host\b|\bsbx-manager\b|\bnode-api\b`)},
	{"a material", regexp.MustCompile(`space_[a-z2-7]{8}_[a-z2-7]{20,}|space(att|sbx|upl)_[A-Za-z0-9_-]{20,}|e2b_[0-9a-f]{40}`)},
}

// places are directories and names of this installation, which are nobody's business outside.
func places() []string {
	i := platform.instance
	host, _ := os.Hostname()
	return []string{i.DataDir(), i.RunDir(), i.LogDir(), "/var/lib/space", i.VolumeImage(), i.EnclosuresDir(), "/var/tmp", i.User(instance.Host), i.Node(), host}
}

// leaked returns what an error tells that it must not. What the client itself has sent may come back.
func leaked(body string, sent ...string) (found []string) {
	said := strings.Join(sent, " ")
	if u, err := url.PathUnescape(said); err == nil {
		said += " " + u
	}
	body = requestRE.ReplaceAllString(body, "")
	for _, l := range leaks {
		for _, m := range l.re.FindAllString(body, -1) {
			if !strings.Contains(said, m) {
				found = append(found, l.what+": "+m)
			}
		}
	}
	for _, p := range places() {
		if !strings.Contains(said, p) && regexp.MustCompile(`(^|\W)`+regexp.QuoteMeta(p)+`(\W|$)`).MatchString(body) {
			found = append(found, "a place of this machine: "+p)
		}
	}
	return found
}

// requestRE is a request's id, which is random and public.
var requestRE = regexp.MustCompile(`req_[a-z2-7]{26}`)

// errorsSeen counts the errors that were looked at.
var errorsSeen atomic.Int64

// checkError looks at an answer that is an error: it's a problem document with a known form that tells nothing of the inside, and keeps the
// client's material to itself. A 500 is always a fault.
func checkError(t *testing.T, r reply, to, body, authorization string) {
	t.Helper()
	if r.status < 400 {
		return
	}
	errorsSeen.Add(1)
	if r.status == http.StatusInternalServerError {
		t.Errorf("%s answered %s", to, clip(r.body))
	}
	for _, l := range leaked(r.body, to, body) {
		t.Errorf("the error of %s tells %s\n%s", clip(to), l, clip(r.body))
	}
	if _, secret, _ := strings.Cut(authorization, " "); len(secret) > 20 && strings.Contains(r.body, secret) {
		t.Errorf("the error of %s repeats what it was shown: %s", clip(to), clip(r.body))
	}
	for name := range r.header {
		if strings.EqualFold(name, "Server") || strings.EqualFold(name, "X-Powered-By") {
			t.Errorf("%s names its software: %s", to, r.header.Get(name))
		}
	}
}
