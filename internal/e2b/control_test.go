package e2b

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	api "github.com/space-platform/space/api/gen/http"
)

// keys are the names of a document's fields.
func keys(t *testing.T, document string) []string {
	t.Helper()
	m := map[string]any{}
	if err := json.Unmarshal([]byte(document), &m); err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	return slices.Sorted(maps.Keys(m))
}

// refusal checks an answer that both SDKs read: the code in the body is the status.
func refusal(t *testing.T, status int, body string) (message string) {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(body), &p); err != nil || p.Code != status || p.Message == "" || status < 400 {
		t.Errorf("%d %q is no refusal (%v)", status, body, err)
	}
	return p.Message
}

// TestCreate pins what Python's SDK 2.21.1 sends and reads.
func TestCreate(t *testing.T) {
	r := newRig(t)
	status, body, _ := r.controlled(t, "POST", "/sandboxes",
		`{"templateID": "base", "timeout": 300, "allow_internet_access": true, "envVars": {"A": "b"}, "metadata": {"k e": "v&1"}, "secure": true, "unknown": 1}`)
	if status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	want := []string{"alias", "clientID", "domain", "envdAccessToken", "envdVersion", "sandboxID", "templateID"}
	if got := keys(t, body); !slices.Equal(got, want) {
		t.Errorf("the answer has %v, want %v", got, want)
	}
	var sent api.SandboxCreate
	if err := json.Unmarshal([]byte(r.bodies["POST /v1/sandboxes"]), &sent); err != nil {
		t.Fatal(err)
	}
	wantEnv := map[string]string{"A": "b", "E2B_SANDBOX": "true", "E2B_TEMPLATE_ID": "base"}
	if *sent.Lifetime.Seconds != 300 || sent.Lifetime.OnExpiry != api.LifetimeOnExpiryDelete || !cmp.Equal(map[string]string(*sent.Env), wantEnv) ||
		!cmp.Equal(map[string]string(*sent.Metadata), map[string]string{"k e": "v&1", markTimeout: timeoutKill}) {
		t.Errorf("the platform was asked for %s", r.bodies["POST /v1/sandboxes"])
	}
}

// TestCreateOfTheSecondGeneration takes a body with next to nothing in it.
func TestCreateOfTheSecondGeneration(t *testing.T) {
	r := newRig(t)
	status, body, _ := r.controlled(t, "POST", "/v2/sandboxes", `{"templateID":"base"}`, "User-Agent", "e2b-js-sdk/2.51.0")
	if status != 201 || !strings.Contains(r.bodies["POST /v1/sandboxes"], `"seconds":300`) {
		t.Errorf("%d %s: %s", status, body, r.bodies["POST /v1/sandboxes"])
	}
}

// TestRefusals: what the platform doesn't have, or what makes no sense, is said with a sentence in the form that SDKs read.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	id, _ := r.created(t)
	for _, x := range []struct {
		name, method, path, body string
		status                   int
	}{
		{"no template", "POST", "/sandboxes", `{}`, 400},
		{"unknown template", "POST", "/sandboxes", `{"templateID":"none"}`, 404},
		{"no document", "POST", "/sandboxes", `nonsense`, 400},
		{"no time", "POST", "/sandboxes", `{"templateID":"base","timeout":0}`, 400},
		{"too much time", "POST", "/sandboxes", `{"templateID":"base","timeout":99999999}`, 400},
		{"network", "POST", "/sandboxes", `{"templateID":"base","network":{"denyOut":["0.0.0.0/0"]}}`, 400},
		{"volumes", "POST", "/sandboxes", `{"templateID":"base","volumeMounts":[{"name":"v","path":"/v"}]}`, 400},
		{"tokens", "POST", "/sandboxes", `{"templateID":"base","iam":{"tokens":{"t":{}}}}`, 400},
		{"volumes without the internet", "POST", "/sandboxes", `{"templateID":"base","allow_internet_access":false,"volumeMounts":[{"name":"v","path":"/v"}]}`, 400},
		{"reserved metadata without the internet", "POST", "/v2/sandboxes", `{"templateID":"base","allow_internet_access":false,"metadata":{"` + reserved + `x":"y"}}`, 400},
		{"the internet", "POST", "/v2/sandboxes", `{"templateID":"base","allow_internet_access":true}`, 400},
		{"memory without pause", "POST", "/sandboxes", `{"templateID":"base","autoPauseMemory":false}`, 400},
		{"reserved metadata", "POST", "/sandboxes", `{"templateID":"base","metadata":{"` + reserved + `x":"y"}}`, 400},
		{"volumes", "POST", "/volumes", `{"name":"v"}`, 400},
		{"network of a sandbox", "PUT", "/sandboxes/" + id + "/network", `{}`, 400},
		{"metrics of many", "GET", "/sandboxes/metrics?sandbox_ids=" + id, ``, 400},
		{"a shared template", "PATCH", "/v2/templates/base", `{"public":true}`, 400},
		{"default templates", "GET", "/templates/defaults", ``, 400},
		{"no such call", "GET", "/nothing/here", ``, 404},
		{"another method", "PATCH", "/sandboxes/" + id, ``, 404},
		{"no sandbox", "GET", "/sandboxes/nosuchsandbox", ``, 404},
		{"no timeout", "POST", "/sandboxes/" + id + "/timeout", `{}`, 400},
		{"a bad state", "GET", "/v2/sandboxes?state=sleeping", ``, 400},
		{"a bad limit", "GET", "/v2/sandboxes?limit=101", ``, 400},
		{"another order", "GET", "/v2/sandboxes?order=asc", ``, 400},
		{"unknown build", "POST", "/v2/templates/x/builds/y", `{}`, 404},
		{"a template's name", "POST", "/v3/templates", `{"name":"Upper"}`, 400},
		{"a template's memory", "POST", "/v3/templates", `{"name":"x","memoryMB":127}`, 400},
	} {
		status, body, _ := r.controlled(t, x.method, x.path, x.body)
		if status != x.status {
			t.Errorf("%s: %d %s, want %d", x.name, status, body, x.status)
		}
		refusal(t, status, body)
	}
}

func TestKeysAndVersions(t *testing.T) {
	r := newRig(t)
	for _, x := range []struct {
		key, agent string
		status     int
	}{
		{"", "e2b-python-sdk/2.21.1", 401}, {"e2b_wrong", "e2b-python-sdk/2.21.1", 401}, {goodKey, "e2b-python-sdk/2.21.1", 200}, {goodKey, "e2b-js-sdk/2.20.1", 200},
		{goodKey, "e2b-python-sdk/2.63.0 e2b-code-interpreter/3.0.0", 200}, {goodKey, "curl/8", 200}, {goodKey, "", 200},
		{goodKey, "e2b-python-sdk/2.10.0", 400}, {goodKey, "e2b-js-sdk/1.4.0", 400}, {goodKey, "e2b-js-sdk/3.0.0", 400}, {goodKey, "e2b-js-sdk/99999999999999999999.0.0", 400},
	} {
		status, body, _ := call(t, "GET", r.control.URL+"/v2/sandboxes", "", "X-API-Key", x.key, "User-Agent", x.agent)
		if status != x.status {
			t.Errorf("key %q, %s: %d %s, want %d", x.key, x.agent, status, body, x.status)
		}
		if status >= 400 {
			refusal(t, status, body)
		}
	}
}

// TestConnect never brings a deadline nearer, whatever headers the SDK's control call has.
func TestConnect(t *testing.T) {
	r := newRig(t)
	id, token := r.created(t)
	deadline := func() time.Time { return *r.sandboxes["sbx_"+id].Lifetime.Deadline }
	before := deadline()
	for _, path := range []string{"/sandboxes/" + id + "/connect", "/v2/sandboxes/" + id + "/connect", "/sandboxes/" + id + "-deadbeef/connect"} {
		status, body, _ := r.controlled(t, "POST", path, `{"timeout": 5}`, headerSandbox, id, headerPort, agentPort)
		if status != 200 || !strings.Contains(body, token) || !deadline().Equal(before) {
			t.Errorf("%s: %d %s, until %s", path, status, body, deadline())
		}
	}
	if status, _, _ := r.controlled(t, "POST", "/v2/sandboxes/"+id+"/connect", ""); status != 200 {
		t.Errorf("without a document: %d", status)
	}
	if status, _, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/connect", `{"timeout":4000}`); status != 200 || !deadline().After(before.Add(time.Hour)) {
		t.Errorf("%d, until %s", status, deadline())
	}
	for state, want := range map[api.SandboxState]int{api.SandboxStateDeleting: 409, api.SandboxStateDeleted: 404, api.SandboxStateLost: 404, api.SandboxStateFailed: 404} {
		r.sandboxes["sbx_"+id].State = state
		status, body, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/connect", `{"timeout":5}`)
		if status != want {
			t.Errorf("%s: %d %s, want %d", state, status, body, want)
		}
		refusal(t, status, body)
	}
}

func TestKillAndTimeout(t *testing.T) {
	r := newRig(t)
	id, _ := r.created(t)
	if status, _, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/timeout", `{"timeout": 5}`); status != 204 {
		t.Errorf("timeout: %d", status)
	}
	if left := time.Until(*r.sandboxes["sbx_"+id].Lifetime.Deadline); left > 6*time.Second {
		t.Errorf("a timeout may shorten, %s are left", left)
	}
	for i, want := range []int{204, 404} {
		if status, body, _ := r.controlled(t, "DELETE", "/sandboxes/"+id, ""); status != want {
			t.Errorf("kill %d: %d %s, want %d", i, status, body, want)
		}
	}
	if status, _, _ := r.controlled(t, "GET", "/sandboxes/"+id, ""); status != 404 {
		t.Errorf("info of what was killed: %d", status)
	}
	other, _ := r.created(t)
	if status, _, _ := r.controlled(t, "POST", "/sandboxes/"+other+"/timeout", `{"timeout": 0}`); status != 204 || r.sandboxes["sbx_"+other].State != api.SandboxStateDeleted {
		t.Errorf("a timeout of 0: %d, %s", status, r.sandboxes["sbx_"+other].State)
	}
}

// TestInfo pins the fields that the SDKs' models require, and that none is null.
func TestInfo(t *testing.T) {
	r := newRig(t)
	id, token := r.created(t)
	status, body, _ := r.controlled(t, "GET", "/sandboxes/"+id, "")
	want := []string{"alias", "clientID", "cpuCount", "diskSizeMB", "domain", "endAt", "envdAccessToken", "envdVersion", "lifecycle", "memoryMB", "sandboxID", "startedAt", "state", "templateID"}
	if got := keys(t, body); status != 200 || !slices.Equal(got, want) || strings.Contains(body, "null") || !strings.Contains(body, token) {
		t.Errorf("%d %s", status, body)
	}
}

// TestList pages by a header that is absent on the last page, and reads a filter that was encoded three times.
func TestList(t *testing.T) {
	r := newRig(t)
	var ids []string
	for range 3 {
		_, body, _ := r.controlled(t, "POST", "/sandboxes", `{"templateID":"base","metadata":{"k e":"v&1"}}`)
		var s struct{ SandboxID string }
		json.Unmarshal([]byte(body), &s)
		ids = append([]string{s.SandboxID}, ids...)
	}
	r.created(t)
	var got []string
	token, pages := "", 0
	for {
		status, body, h := r.controlled(t, "GET", "/v2/sandboxes?limit=2&metadata=k%252520e%3Dv%2525261&state=running%2Cpaused&nextToken="+token, "")
		var page []listed
		if err := json.Unmarshal([]byte(body), &page); err != nil || status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		for _, s := range page {
			got = append(got, s.SandboxID)
		}
		pages++
		if _, there := h["X-Next-Token"]; !there {
			break
		}
		token = h.Get("X-Next-Token")
	}
	if !slices.Equal(got, ids) || pages != 2 {
		t.Errorf("in %d pages %v, want %v", pages, got, ids)
	}
	if _, body, _ := r.controlled(t, "GET", "/v2/sandboxes?state=paused", ""); strings.TrimSpace(body) != "[]" {
		t.Errorf("no sandboxes are %s", body)
	}
}

// TestPlatformAway: no answer of the platform, or one that an SDK can't read, is an answer in the SDKs' form.
func TestPlatformAway(t *testing.T) {
	r := newRig(t)
	r.refused("POST /v1/sandboxes", space.CodeCapacity, "no node has room")
	status, body, h := r.controlled(t, "POST", "/sandboxes", `{"templateID":"base"}`)
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "sandbox_capacity_unavailable") || h.Get("Retry-After") != "1" {
		t.Errorf("%d %s", status, body)
	}
	r.refused("POST /v1/sandboxes", space.CodeQuotaExceeded, "the quota is used up")
	if status, body, _ := r.controlled(t, "POST", "/sandboxes", `{"templateID":"base"}`); status != http.StatusTooManyRequests || refusal(t, status, body) != "the quota is used up" {
		t.Errorf("%d %s", status, body)
	}
	r.platform.Close()
	status, body, _ = r.controlled(t, "POST", "/sandboxes/"+strings.Repeat("a", 26)+"/timeout", `{"timeout":5}`)
	if status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, body)
	}
	refusal(t, status, body)
}

// TestPause keeps everything but the deadline, which begins anew with the next connect; twice is a conflict, which SDKs take for a success.
func TestPause(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string]api.SandboxState{"": api.SandboxStateSuspended, "{}": api.SandboxStateSuspended, `{"memory":false}`: api.SandboxStateStopped} {
		id, token := r.created(t)
		s := r.sandboxes["sbx_"+id]
		for i, status := range []int{204, 409} {
			if got, answer, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/pause", body); got != status {
				t.Errorf("pause %d: %d %s", i, got, answer)
			}
		}
		if s.State != want || s.Lifetime != nil {
			t.Errorf("%s: it's %s until %v", body, s.State, s.Lifetime)
		}
		if _, info, _ := r.controlled(t, "GET", "/sandboxes/"+id, ""); !strings.Contains(info, `"state":"paused"`) {
			t.Error(info)
		}
		if _, page, _ := r.controlled(t, "GET", "/v2/sandboxes?state=paused", ""); !strings.Contains(page, id) {
			t.Error(page)
		}
		status, answer, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/connect", `{"timeout":60}`)
		if status != 201 || !strings.Contains(answer, token) || s.State != api.SandboxStateRunning || time.Until(*s.Lifetime.Deadline) > time.Minute {
			t.Errorf("connect: %d %s, until %v", status, answer, s.Lifetime)
		}
	}
}

// TestPauseThatFails leaves the deadline.
func TestPauseThatFails(t *testing.T) {
	r := newRig(t)
	id, _ := r.created(t)
	before := *r.sandboxes["sbx_"+id].Lifetime.Deadline
	r.refused("POST /v1/sandboxes/sbx_"+id+"/suspend", space.CodeQuotaExceeded, "there's no room")
	if status, body, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/pause", ""); status != 429 {
		t.Errorf("%d %s", status, body)
	}
	if l := r.sandboxes["sbx_"+id].Lifetime; l == nil || !l.Deadline.Equal(before) {
		t.Errorf("the lifetime is %v", l)
	}
}

// TestPauseThatFailsTooLate gives a sandbox whose deadline has passed meanwhile another one.
func TestPauseThatFailsTooLate(t *testing.T) {
	r := newRig(t)
	id, _ := r.created(t)
	passed := time.Now().Add(-time.Second)
	r.sandboxes["sbx_"+id].Lifetime.Deadline = &passed
	r.refused("POST /v1/sandboxes/sbx_"+id+"/suspend", space.CodeQuotaExceeded, "there's no room")
	began := time.Now()
	if status, body, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/pause", ""); status != 429 {
		t.Errorf("%d %s", status, body)
	}
	l := r.sandboxes["sbx_"+id].Lifetime
	if l == nil || l.OnExpiry != api.LifetimeOnExpiryDelete || l.Deadline.Before(began.Add(leastAgain)) {
		t.Errorf("the lifetime is %v", l)
	}
}

// TestWakeWhoseDeadlineFails tries once more to give it, and tells who asked if there's none.
func TestWakeWhoseDeadlineFails(t *testing.T) {
	for refusals, want := range map[int]int{1: 201, 2: 429} {
		r := newRig(t)
		id, _ := r.created(t)
		r.controlled(t, "POST", "/sandboxes/"+id+"/pause", "")
		update := "PATCH /v1/sandboxes/sbx_" + id
		r.refused(update, space.CodeQuotaExceeded, "not now")
		r.times[update] = refusals
		if status, body, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/connect", `{"timeout":60}`); status != want {
			t.Errorf("after %d refusals: %d %s, want %d", refusals, status, body, want)
		}
		if s := r.sandboxes["sbx_"+id]; s.State != api.SandboxStateRunning || (s.Lifetime != nil) != (want == 201) {
			t.Errorf("after %d refusals it's %s until %v", refusals, s.State, s.Lifetime)
		}
	}
}

// TestCreateFromASnapshot finds one where there's no template of the name.
func TestCreateFromASnapshot(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"snap", "team/snap:default"} {
		if status, body, _ := r.controlled(t, "POST", "/sandboxes", `{"templateID":"`+name+`"}`); status != 201 || !strings.Contains(r.bodies["POST /v1/sandboxes"], `"snapshot":"snp_1"`) {
			t.Errorf("%s: %d %s, %s", name, status, body, r.bodies["POST /v1/sandboxes"])
		}
	}
}

// TestLifecycle says to the platform what is to become of a sandbox at its timeout, and whether it's woken by what is done with it.
func TestLifecycle(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string]string{
		``:                 `delete false none`,
		`"autoPause":true`: `suspend false none`,
		`"autoPause":true,"autoPauseMemory":false`:       `stop false none`,
		`"autoPause":true,"autoResume":{"enabled":true}`: `suspend true suspend`,
	} {
		document := `{"templateID":"base","timeout":90`
		if body != "" {
			document += "," + body
		}
		status, answer, _ := r.controlled(t, "POST", "/sandboxes", document+"}")
		var sent api.SandboxCreate
		if err := json.Unmarshal([]byte(r.bodies["POST /v1/sandboxes"]), &sent); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(sent.Lifetime.OnExpiry, " ", *sent.Lifecycle.AutoWake, " ", sent.Lifecycle.Idle.Action); status != 201 || got != want {
			t.Errorf("%s: %d %s: %s, want %s", body, status, answer, got, want)
		}
		if a := sent.Lifecycle.Idle.AfterSeconds; a != nil && *a != 90 {
			t.Errorf("%s: idle after %d s", body, *a)
		}
	}
}

// TestConnectsAtOnce leaves the latest of all deadlines, of a sandbox that runs and of one that is paused.
func TestConnectsAtOnce(t *testing.T) {
	r := newRig(t)
	for _, pausedBefore := range []bool{false, true} {
		id, _ := r.created(t)
		if pausedBefore {
			r.controlled(t, "POST", "/sandboxes/"+id+"/pause", "")
		}
		began := time.Now()
		var g sync.WaitGroup
		for n := range 20 {
			g.Go(func() {
				if status, body, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/connect", fmt.Sprintf(`{"timeout":%d}`, 1000+100*n)); status > 201 {
					t.Errorf("%d %s", status, body)
				}
			})
		}
		g.Wait()
		if left := r.sandboxes["sbx_"+id].Lifetime.Deadline.Sub(began); left < 2900*time.Second {
			t.Errorf("paused before: %v: %s are left", pausedBefore, left)
		}
	}
}

// TestWhatOnlyTheNewestSDKsSay isn't ignored: of memory, of the guest's health, and of repeated orders.
func TestWhatOnlyTheNewestSDKsSay(t *testing.T) {
	r := newRig(t)
	id, _ := r.created(t)
	at := "/v1/sandboxes/sbx_" + id
	if status, body, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/snapshots", `{"memory":false}`); status != 201 || !strings.Contains(r.bodies["POST "+at+"/snapshots"], `"kind":"disk"`) {
		t.Errorf("a snapshot without memory: %d %s, %s", status, body, r.bodies["POST "+at+"/snapshots"])
	}
	r.controlled(t, "POST", "/sandboxes/"+id+"/pause", "")
	if status, body, _ := r.controlled(t, "POST", "/v2/sandboxes/"+id+"/connect", `{"timeout":60,"memory":false}`); status != 201 || !strings.Contains(r.bodies["restore"], "cold=true") || r.count("POST "+at+"/wake") != 0 {
		t.Errorf("a boot from the disk: %d %s, %s", status, body, r.bodies["restore"])
	}
	r.controlled(t, "POST", "/sandboxes/"+id+"/pause", `{"memory":false}`)
	r.refused("POST "+at+"/restore", space.CodeConflict, "it's stopped")
	if status, body, _ := r.controlled(t, "POST", "/v2/sandboxes/"+id+"/connect", `{"memory":false}`); status != 201 || r.count("POST "+at+"/start") != 1 {
		t.Errorf("of what has no memory: %d %s", status, body)
	}
	r.refused("GET "+at+"/files/stat", space.CodeTimeout, "it doesn't answer")
	if status, body, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/pause", `{"requireHealthyGuest":true}`); status != 503 || r.sandboxes["sbx_"+id].State != api.SandboxStateRunning {
		t.Errorf("a pause of what doesn't answer: %d %s, it's %s", status, body, r.sandboxes["sbx_"+id].State)
	}
	delete(r.refuse, "GET "+at+"/files/stat")
	if status, body, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/pause", `{"requireHealthyGuest":true}`); status != 204 {
		t.Errorf("a pause of what answers: %d %s", status, body)
	}
	var keys []string
	for _, key := range []string{"a-key", "a-key", "another"} {
		if status, body, _ := r.controlled(t, "POST", "/v2/sandboxes", `{"templateID":"base"}`, space.IdempotencyKey, key); status != 201 {
			t.Errorf("%d %s", status, body)
		}
		keys = append(keys, r.lastKey)
	}
	if keys[0] != keys[1] || keys[0] == keys[2] || !strings.HasPrefix(keys[0], "e2b-") {
		t.Errorf("the platform gets the keys %q", keys)
	}
	if status, _, _ := r.controlled(t, "POST", "/v2/sandboxes", `{"templateID":"base"}`, space.IdempotencyKey, "a b"); status != 400 {
		t.Errorf("a key with a space: %d", status)
	}
}

// leaves calls the control API and leaves while the platform does something, which it's done with when this returns.
func (r *rig) leaves(t *testing.T, path, body, during string) {
	t.Helper()
	reached, goOn := make(chan struct{}), make(chan struct{})
	r.during = func(name string) {
		if strings.HasSuffix(name, during) {
			close(reached)
			<-goOn
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", r.control.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", goodKey)
	done := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(req)
		done <- err
	}()
	<-reached
	leave()
	if err := <-done; err == nil {
		t.Fatal("the client has an answer")
	}
	close(goOn)
	r.control.Close() // returns when the handler has ended
}

// TestAClientLeavesDuringAWake: what is woken has a deadline.
func TestAClientLeavesDuringAWake(t *testing.T) {
	r := newRig(t)
	id, _ := r.created(t)
	r.controlled(t, "POST", "/sandboxes/"+id+"/pause", "")
	r.leaves(t, "/sandboxes/"+id+"/connect", `{"timeout":60}`, "/wake")
	if s := r.sandboxes["sbx_"+id]; s.State != api.SandboxStateRunning || s.Lifetime == nil || s.Lifetime.Deadline == nil {
		t.Errorf("it's %s until %+v", s.State, s.Lifetime)
	}
}

// TestAClientLeavesDuringAPause: the pause goes on, and what is paused has no deadline at which it would be killed; what couldn't be paused has its own again.
func TestAClientLeavesDuringAPause(t *testing.T) {
	for _, fails := range []bool{false, true} {
		r := newRig(t)
		id, _ := r.created(t)
		deadline := *r.sandboxes["sbx_"+id].Lifetime.Deadline
		if fails {
			r.refused("POST /v1/sandboxes/sbx_"+id+"/suspend", space.CodeQuotaExceeded, "there's no room")
		}
		r.leaves(t, "/sandboxes/"+id+"/pause", "", "/suspend")
		s := r.sandboxes["sbx_"+id]
		if !fails && (s.State != api.SandboxStateSuspended || s.Lifetime != nil && s.Lifetime.Deadline != nil) {
			t.Errorf("it's %s until %+v", s.State, s.Lifetime)
		}
		if fails && (s.State != api.SandboxStateRunning || s.Lifetime == nil || !s.Lifetime.Deadline.Equal(deadline)) {
			t.Errorf("what couldn't be paused is %s until %+v", s.State, s.Lifetime)
		}
	}
}

// TestForkTellsOfThoseThatWerentMade: the SDKs read an item for each, in which there's a sandbox or why there's none.
func TestForkTellsOfThoseThatWerentMade(t *testing.T) {
	r := newRig(t)
	id, _ := r.created(t)
	status, body, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/fork", `{"count":2,"timeout":60}`)
	var out []struct {
		Sandbox *struct{ SandboxID string }
		Error   *problem
	}
	if err := json.Unmarshal([]byte(body), &out); err != nil || status != 201 || len(out) != 2 {
		t.Fatalf("%d %s, %v", status, body, err)
	}
	if out[0].Sandbox == nil || out[0].Error != nil || out[1].Sandbox != nil || out[1].Error == nil || !strings.Contains(out[1].Error.Message, "its memory is damaged") {
		t.Errorf("%s", body)
	}
}
