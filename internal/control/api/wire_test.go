package api_test

import (
	"testing"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/api"
	"github.com/space-platform/space/internal/public/publictest"
)

// TestWire: no project is made of it.
func TestWire(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.hurry()
	publictest.Run(t, publictest.Target{
		URL: r.url, Post: "/v1/projects", Bearer: r.key, JSON: `{"name":"wire"}`, MaxBody: api.MaxBody, Header: api.MaxHeader, BodyTime: publictest.BodyTime, Times: publictest.Times(),
	}, func() int {
		return len(decode[gen.ProjectPage](t, r.do(t, "GET", "/v1/projects", nil).want(t, 200)).Items)
	})
}
