package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/api"
	"github.com/space-platform/space/internal/control/record"
)

// troubled is a database that fails, or a bug.
type troubled struct{ err error }

func (d troubled) Ping(context.Context) error { return d.err }

func (d troubled) Node(context.Context, string) (record.Node, error) {
	if d.err == nil {
		panic("a bug")
	}
	return record.Node{}, d.err
}

func TestTroubleIsAProblem(t *testing.T) {
	r := newRig(t)
	for _, x := range []struct {
		name string
		err  error
		want space.Code
	}{
		{"panic", nil, space.CodeInternal},
		{"internal", errors.New("secret detail"), space.CodeInternal},
		{"unavailable", space.Errorf(space.CodeUnavailable, "no database"), space.CodeUnavailable},
		{"timeout", fmt.Errorf("read: %w", context.DeadlineExceeded), space.CodeTimeout},
		{"cancelled", fmt.Errorf("read: %w", context.Canceled), space.CodeUnavailable},
	} {
		t.Run(x.name, func(t *testing.T) {
			r.serve(t, api.New(api.Parts{Recognizer: r.store, Bell: r.bell, Database: troubled{x.err}, Node: nodeName}))
			a := r.do(t, "GET", "/v1/node", nil)
			newJudge(t).check(t, "GET", "/v1/node", a)
			if a.code(t, x.want); strings.Contains(string(a.body), "secret") {
				t.Errorf("the client is told the cause: %s", a.body)
			}
		})
	}
}

func TestUnhealthy(t *testing.T) {
	r := newRig(t)
	r.serve(t, api.New(api.Parts{Recognizer: r.store, Bell: r.bell, Database: troubled{errors.New("down")}}))
	a := r.do(t, "GET", "/healthz", nil, "Authorization", "")
	newJudge(t).check(t, "GET", "/healthz", a)
	a.code(t, space.CodeUnavailable)
}

// TestBodyOfAnotherLength sends a body without its length, larger than allowed: it's cut at the limit.
func TestBodyOfAnotherLength(t *testing.T) {
	r := newRig(t)
	req, err := http.NewRequestWithContext(t.Context(), "POST", r.url+"/v1/templates", &endless{left: 10 << 20})
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	send(t, req).code(t, space.CodeTooLarge)
}

// TestWhatNobodyReads: it's refused, so that nobody takes it for read.
func TestWhatNobodyReads(t *testing.T) {
	r := newRig(t)
	session := "/v1/sandboxes/" + space.NewID(space.PrefixSandbox) + "/sessions/" + space.NewID(space.PrefixSession)
	for _, c := range []struct{ method, path, body, field, detail string }{
		{"POST", session + "/attachments", "{}", "body", "this operation takes no body: what it takes stands in the address, behind a ?"},
		{"GET", "/v1/sandboxes", "{}", "body", "this operation takes no body: what it takes stands in the address, behind a ?"},
		{"GET", "/v1/sandboxes?limit=a", "", "limit", "is not a whole number"},
		{"GET", "/v1/sandboxes?limit=99999999999999999999", "", "limit", "is not a whole number"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, r.url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.key)
		p := send(t, req).code(t, space.CodeInvalid)
		if p.Field == nil || *p.Field != c.field || p.Detail == nil || *p.Detail != c.detail {
			t.Errorf("%s %s: %+v, want %s: %s", c.method, c.path, p, c.field, c.detail)
		}
	}
}

// TestAttachmentOfADeletedSandbox: it would open nothing.
func TestAttachmentOfADeletedSandbox(t *testing.T) {
	r := newRig(t)
	r.template(t)
	box := r.sandbox(t)
	session := r.session(t, box.Id)
	r.do(t, "DELETE", "/v1/sandboxes/"+box.Id, nil)
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/sessions/"+session.Session.Id+"/attachments", nil).code(t, space.CodeConflict)
}

type endless struct{ left int }

func (e *endless) Read(b []byte) (int, error) {
	if e.left <= 0 {
		return 0, errors.New("the whole body was read")
	}
	n := min(len(b), e.left)
	for i := range b[:n] {
		b[i] = ' '
	}
	e.left -= n
	return n, nil
}
