package edge

import (
	"io"
	"strings"
	"testing"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

// TestWhoComesBackByItselfWakesNothing asks the control plane in the words of each request about a session.
func TestWhoComesBackByItselfWakesNothing(t *testing.T) {
	r := newRig(t)
	r.attach, r.call = sends(nil, started(), exit(&sessionv1.Exit{})), nothing
	var attached []bool
	r.resolve = func(m *controlv1.ResolveAttachmentRequest) error {
		attached = append(attached, m.GetLetSleep())
		return nil
	}
	for query, sleep := range map[string]bool{"": false, "?wake=true": false, "?wake=false": true} {
		attached, r.asked = nil, nil
		if _, err := io.ReadAll(r.ask(t, "GET", r.sessionPath("/attach"+query), nil).Body); err != nil {
			t.Fatal(err)
		}
		c, _, err := r.dial(t, query, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.CloseNow()
		for _, at := range []string{"/signal", "/resize"} {
			r.ask(t, "POST", r.sessionPath(at+query), strings.NewReader(map[string]string{"/signal": `{"signal":"SIGINT"}`, "/resize": `{"rows":1,"cols":1}`}[at])).want(t, 204, nil)
		}
		r.ask(t, "POST", r.sessionPath("/stdin?offset=0&"+strings.TrimPrefix(query, "?")), nil).Body.Close()
		if len(attached) != 2 || attached[0] != sleep || attached[1] != sleep {
			t.Errorf("%q: attaches let it sleep: %v", query, attached)
		}
		told := 0
		for _, m := range r.asked {
			if q, ok := m.(*controlv1.ResolveSessionRequest); ok {
				told++
				if q.GetLetSleep() != sleep {
					t.Errorf("%q: %v", query, q)
				}
			}
		}
		if told != 3 {
			t.Errorf("%q: asked for a session %d times", query, told)
		}
	}
	for _, at := range []string{"/attach?wake=no", "/attach?wake="} {
		r.ask(t, "GET", r.sessionPath(at), nil).fails(t, space.CodeInvalid, "wake")
	}
}
