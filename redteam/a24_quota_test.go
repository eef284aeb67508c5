//go:build e2e

package redteam

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	gen "github.com/space-platform/space/api/gen/http"
)

// TestA24Quota creates more at once than there is room for, of each kind that is counted: exactly as many as fit are let in.
func TestA24Quota(t *testing.T) {
	boxes(t)
	me := decode[gen.Me](t, ask(t, "GET", platform.api+"/v1/me", platform.owner, "").want(t, 200))
	set := func(quota string) {
		ask(t, "PATCH", platform.api+"/v1/projects/"+me.Project.Id, platform.owner, `{"quota":`+quota+`}`).want(t, 200)
	}
	defer set(`{}`)
	used := func() gen.QuotaUse {
		return decode[gen.Me](t, ask(t, "GET", platform.api+"/v1/me", platform.owner, "").want(t, 200)).Project.Used
	}
	const fits, each = 2, 12
	before := used()
	for kind, x := range map[string]struct{ used, size int64 }{
		"sandboxes": {int64(before.Sandboxes), 1}, "vcpus": {int64(before.Vcpus), 1}, "memory_mb": {before.MemoryMb, 128}, "disk_mb": {before.DiskMb, 64},
	} {
		set(fmt.Sprintf(`{"%s":%d}`, kind, x.used+fits*x.size+x.size-1))
		made := race(t, each, func(int) reply {
			return ask(t, "POST", platform.api+"/v1/sandboxes", platform.owner, `{"template":"mini"}`)
		})
		var ids []string
		for _, a := range made {
			switch {
			case a.status == 202 || a.status == 201:
				ids = append(ids, decode[gen.Operation](t, a).Sandbox.Id)
			case a.code() != "quota_exceeded":
				t.Errorf("%s: %d %s", kind, a.status, a.body)
			}
		}
		if len(ids) != fits {
			t.Errorf("%s: %d of %d are let in, %d fit", kind, len(ids), each, fits)
		}
		for _, a := range race(t, len(ids), func(n int) reply { return ask(t, "DELETE", platform.api+"/v1/sandboxes/"+ids[n], platform.owner, "") }) {
			a.want(t, 200, 202)
		}
	}
	if after := used(); !reflect.DeepEqual(after, before) {
		t.Errorf("after all deletes %+v is used, before %+v", after, before)
	}
}

// race does something n times at once.
func race(t *testing.T, n int, do func(int) reply) []reply {
	t.Helper()
	out := make([]reply, n)
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { <-begin; out[i] = do(i) })
	}
	close(begin)
	all.Wait()
	return out
}

// TestA24OtherLimits races for a sandbox's last tokens and a session's last attaches.
func TestA24OtherLimits(t *testing.T) {
	box, _ := boxes(t)
	tokens := platform.api + "/v1/sandboxes/" + box.id + "/tokens"
	have := decode[gen.SandboxTokenPage](t, ask(t, "GET", tokens, platform.owner, "").want(t, 200)).Items
	const limit = 100
	for i := len(have); i < limit-2; i++ {
		ask(t, "POST", tokens, platform.owner, `{"expires_in_seconds":600}`).want(t, 201)
	}
	var let atomic.Int32
	for _, a := range race(t, 12, func(int) reply { return ask(t, "POST", tokens, platform.owner, `{"expires_in_seconds":600}`) }) {
		if a.status == 201 {
			let.Add(1)
		} else if a.status != 409 && a.code() != "quota_exceeded" {
			t.Errorf("a token too many: %d %s", a.status, a.body)
		}
	}
	if let.Load() != 2 {
		t.Errorf("%d tokens are issued where 2 fit", let.Load())
	}
	for _, token := range decode[gen.SandboxTokenPage](t, ask(t, "GET", tokens, platform.owner, "").want(t, 200)).Items {
		keep := false
		for _, h := range have {
			keep = keep || h.Id == token.Id
		}
		if !keep {
			ask(t, "DELETE", tokens+"/"+token.Id, platform.owner, "").want(t, 204)
		}
	}
	const attaches = 8
	made := box.session(t, `{"argv":["sleep","1000"]}`)
	open := make([]*http.Response, 12)
	for _, a := range race(t, len(open), func(n int) reply {
		req, err := http.NewRequestWithContext(t.Context(), "GET", made.Attachment.Url, nil)
		if err != nil {
			return reply{body: err.Error()}
		}
		req.Header.Set("Authorization", "Bearer "+made.Attachment.Token)
		req.Header.Set("Accept", "text/event-stream")
		resp, err := direct.Do(req)
		if err != nil {
			return reply{body: err.Error()}
		}
		if resp.StatusCode == http.StatusOK {
			open[n] = resp // held until all have an answer
			return reply{status: resp.StatusCode}
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return reply{body: err.Error()}
		}
		return reply{resp.StatusCode, resp.Header, string(b)}
	}) {
		if a.status != http.StatusOK && a.code() != "quota_exceeded" {
			t.Errorf("an attach too many: %d %s", a.status, a.body)
		}
	}
	held := 0
	for _, resp := range open {
		if resp != nil {
			held++
			resp.Body.Close()
		}
	}
	if held != attaches {
		t.Errorf("%d attaches are open where %d fit", held, attaches)
	}
	same := race(t, 8, func(int) reply {
		return ask(t, "POST", platform.api+"/v1/sandboxes/"+box.id+"/sessions", platform.owner, `{"argv":["true"]}`, "Idempotency-Key", "a24-"+strings.TrimPrefix(box.id, "sbx_"))
	})
	for _, a := range same {
		if a.status != 201 || a.body != same[0].body {
			t.Errorf("the same request at once: %d %s, the first %d %s", a.status, clip(a.body), same[0].status, clip(same[0].body))
		}
	}
}
