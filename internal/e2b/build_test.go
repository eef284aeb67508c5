package e2b

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	space "github.com/space-platform/space"
	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// TestWhatBuildsSayIsTheUsersOwn has a whole build's log: steps have the user's numbers, commands are as they were written, and of what builds do for
// themselves there's nothing but what it prints.
func TestWhatBuildsSayIsTheUsersOwn(t *testing.T) {
	c, err := compile([]buildStep{
		{Type: "RUN", Args: []string{"echo 'a b'\necho c"}}, {Type: "COPY", Args: []string{"src", "~/dst", "", "0755"}, FilesHash: "h"}, {Type: "ENV", Args: []string{"A", "b"}},
		{Type: "USER", Args: []string{"other", "true"}}, {Type: "RUN", Args: []string{strings.Repeat("x", 300), "root"}},
	}, "", "", map[string]string{"h": "upl_1"})
	if err != nil {
		t.Fatal(err)
	}
	n := &build{steps: c.means}
	log := func(step int, text string) { n.keep(client.LogLine{Step: &step, Text: text}) }
	log(0, "the source is as it was; its disk is kept")
	for i, s := range c.steps {
		switch number := i + 1; {
		case s.Copy != nil:
			log(number, "copy to "+s.Copy.To)
			log(number, "3 entries, 12 bytes")
		case s.Run != nil:
			line, _, _ := strings.Cut(*s.Run, "\n")
			log(number, "run "+line[:min(len(line), 200)]+" …")
			log(number, fmt.Sprintf("run of %s", n.stepName(number)))
		}
	}
	log(len(c.steps)+1, "start sleep 9")
	want := []string{
		"base the source is as it was; its disk is kept", "base run of base", "1 run echo 'a b' …", "1 run of 1", "2 copy src to ~/dst", "2 3 entries, 12 bytes", "2 run of 2",
		"4 user other", "4 run of 4", "5 run " + strings.Repeat("x", 200) + " …", "5 run of 5", "finalize start sleep 9",
	}
	var got []string
	for _, e := range n.entries(0) {
		got = append(got, e.Step+" "+e.Message)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want\n%q", got, want)
	}
	for text, want := range map[string]string{
		"step 4: it ended with status 7": "step 1: it ended with status 7", "step 2: no useradd": "step base: no useradd", "step 99: the start command failed": "step finalize: the start command failed",
		"step 3 of my program": "step 3 of my program", "step 99999999999999999999: x": "step finalize: x",
	} {
		if got := n.said(text); got != want {
			t.Errorf("%q is said as %q, want %q", text, got, want)
		}
	}
}

// TestStepsAsTheyWere says so once for each of the user's steps, though the platform has several.
func TestStepsAsTheyWere(t *testing.T) {
	n := &build{steps: []meaning{{0, ""}, {1, "copy a to b"}, {1, ""}, {2, "run x"}}}
	for i := range n.steps {
		step := i + 1
		n.keep(client.LogLine{Step: &step, Text: fmt.Sprintf("step %d is as it was; its disk is kept", step)})
	}
	var got []string
	for _, e := range n.entries(0) {
		got = append(got, e.Message)
	}
	if want := []string{"step 1 is as it was; its disk is kept", "step 2 is as it was; its disk is kept"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestASlowPlatformHoldsUpOneBuildOnly has it take its time for a build's upload, and for the build: meanwhile all else is remembered, also with the file
// written anew, and nobody begins the same build.
func TestASlowPlatformHoldsUpOneBuildOnly(t *testing.T) {
	r := newRig(t)
	var build struct{ BuildID string }
	if status, body, _ := r.controlled(t, "POST", "/v3/templates", `{"name":"x"}`); status != 202 || json.Unmarshal([]byte(body), &build) != nil {
		t.Fatalf("%d %s", status, body)
	}
	start := "/v2/templates/x/builds/" + build.BuildID
	for slow, ask := range map[string]func() (int, string, http.Header){
		"POST /v1/uploads": func() (int, string, http.Header) { return r.controlled(t, "GET", "/templates/x/files/hash", "") },
		"POST /v1/templates": func() (int, string, http.Header) {
			return r.controlled(t, "POST", start, `{"fromImage":"debian","steps":[]}`)
		},
	} {
		reached, goOn := make(chan struct{}), make(chan struct{})
		r.during = func(name string) {
			if name == slow {
				close(reached)
				<-goOn
			}
		}
		done := make(chan int, 1)
		go func() {
			status, _, _ := ask()
			done <- status
		}()
		<-reached
		remembered := make(chan struct{})
		go func() {
			defer close(remembered)
			r.facade.memory.mu.Lock()
			r.facade.memory.size = maxMemory
			r.facade.memory.mu.Unlock()
			r.facade.tokens.remember(access{space.NewID(space.PrefixSandbox), "while " + slow})
		}()
		select {
		case <-remembered:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s holds up what has nothing to do with it", slow)
		}
		if slow == "POST /v1/templates" {
			if status, body, _ := r.controlled(t, "POST", start, `{"fromImage":"debian","steps":[]}`); status != http.StatusConflict {
				t.Errorf("a second start meanwhile: %d %s", status, body)
			}
		}
		close(goOn)
		if status := <-done; status != 201 && status != 202 {
			t.Errorf("%s: %d", slow, status)
		}
		r.during = nil
	}
	if status, body, _ := r.controlled(t, "POST", start, `{"fromImage":"debian","steps":[]}`); status != http.StatusConflict {
		t.Errorf("a second start afterwards: %d %s", status, body)
	}
}

// TestABuildThatThePlatformRefusesMayBeStartedAgain, with other steps perhaps.
func TestABuildThatThePlatformRefusesMayBeStartedAgain(t *testing.T) {
	r := newRig(t)
	var build struct{ BuildID string }
	if _, body, _ := r.controlled(t, "POST", "/v3/templates", `{"name":"x"}`); json.Unmarshal([]byte(body), &build) != nil {
		t.Fatal(body)
	}
	r.refused("POST /v1/templates", space.CodeInvalid, "no such image")
	r.times["POST /v1/templates"] = 1
	for _, want := range []int{400, 202, 409} {
		if status, body, _ := r.controlled(t, "POST", "/v2/templates/x/builds/"+build.BuildID, `{"fromImage":"debian"}`); status != want {
			t.Errorf("%d %s, want %d", status, body, want)
		}
	}
}

// TestTagsAllOrNone refuses what can't be done whole before anything of it is done.
func TestTagsAllOrNone(t *testing.T) {
	r := newRig(t)
	tags := make([]string, maxTags-2)
	for i := range tags {
		tags[i] = fmt.Sprint("t", i)
	}
	r.templates = []api.Template{{Id: "tpl_1", Name: "x", Current: true, Tags: tags[:100]}, {Id: "tpl_2", Name: "x", Tags: tags[100:]}, {Id: "tpl_3", Name: "y", Tags: []string{"a"}}}
	changes := func() (n int) {
		for _, asked := range r.asked {
			if strings.HasPrefix(asked, "PUT ") || strings.HasPrefix(asked, "DELETE ") {
				n++
			}
		}
		return n
	}
	for _, x := range []struct {
		method, body    string
		status, changes int
	}{
		{"POST", `{"target":"x","tags":["a","b","c"]}`, 400, 0}, {"POST", `{"target":"x","tags":["a","A"]}`, 400, 0},
		{"POST", `{"target":"x","tags":["a","b","a","t0","default"]}`, 201, 3}, {"DELETE", `{"name":"x","tags":["t0","none"]}`, 404, 0},
		{"DELETE", `{"name":"x","tags":["t0","default"]}`, 400, 0}, {"DELETE", `{"name":"x","tags":["t0","t1","t0"]}`, 204, 2},
	} {
		before := changes()
		status, body, _ := r.controlled(t, x.method, "/templates/tags", x.body)
		if n := changes() - before; status != x.status || n != x.changes {
			t.Errorf("%s %s: %d %s, %d changes; want %d and %d", x.method, x.body, status, body, n, x.status, x.changes)
		}
	}
	many, _ := json.Marshal(map[string]any{"name": "x", "tags": tags[:buildTags+1]})
	if status, body, _ := r.controlled(t, "POST", "/v3/templates", string(many)); status != 400 {
		t.Errorf("a build with %d tags: %d %s", buildTags+1, status, body)
	}
	if status, body, _ := r.controlled(t, "POST", "/v3/templates", `{"name":"x:v1","tags":["v1","default"]}`); status != 202 || !strings.Contains(body, `"tags":["v1"]`) {
		t.Errorf("a build with one tag said twice: %d %s", status, body)
	}
}
