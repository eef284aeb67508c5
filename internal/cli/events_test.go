package cli

import (
	"bytes"
	"testing"

	"github.com/space-platform/space/client"
)

// TestEventsThatAreMissed: of a gap nobody knows when it was, so no time is made up.
func TestEventsThatAreMissed(t *testing.T) {
	box := "sbx_1"
	all := []client.LifecycleEvent{{Type: client.EventsMissed, Id: "40"}, {Type: "sandbox.created", Id: "41", At: epoch, Sandbox: &box}}
	for format, want := range map[string]string{
		"text": "-                     gap                  events up to 40 are no longer kept\n2026-01-02T03:04:05Z  sandbox.created      sbx_1\n",
		"json": `{"to":"40","type":"gap"}` + "\n" + `{"at":"2026-01-02T03:04:05Z","id":"41","sandbox":"sbx_1","type":"sandbox.created"}` + "\n",
	} {
		var out bytes.Buffer
		n := &connection{json: func() bool { return format == "json" }}
		err := n.showEvents(&out, func(yield func(client.LifecycleEvent, error) bool) {
			for _, e := range all {
				if !yield(e, nil) {
					return
				}
			}
		})
		if err != nil || out.String() != want {
			t.Errorf("%s: %q, want %q: %v", format, out.String(), want, err)
		}
	}
}
