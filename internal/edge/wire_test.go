package edge

import (
	"net/url"
	"strings"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/public/publictest"
)

// TestWire: the node's door makes nothing of it.
func TestWire(t *testing.T) {
	r := newRig(t)
	r.stop()
	r.timing.body, r.timing.client = publictest.BodyTime, publictest.Times()
	r.serve(t)
	publictest.Run(t, publictest.Target{
		URL: r.url, Post: "/v1/sandboxes/" + r.sandbox + "/files/rename", Bearer: r.box, JSON: `{"from":"/a","to":"/b"}`,
		MaxBody: maxJSON, Header: maxHeader, BodyTime: publictest.BodyTime, Times: publictest.Times(),
	}, func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.actions)
	})
}

// TestLongestPath: openapi.yaml counts characters, the kernel bytes. What is too long in bytes alone is still answered with a problem.
func TestLongestPath(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{strings.Repeat("é", maxPath/2+1), strings.Repeat("😀", maxPath)} {
		c := r.ask(t, "GET", "/v1/sandboxes/"+r.sandbox+"/files/stat?path="+url.QueryEscape(path), nil, "Authorization", "Bearer "+r.box)
		if p := c.problem(t); p.Code != string(space.CodeInvalid) {
			t.Errorf("%d characters: %+v", len([]rune(path)), p)
		}
	}
}
