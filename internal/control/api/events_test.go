package api_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

// event is one that came in a stream.
type event struct{ name, id, data string }

// stream is an open stream of events.
type stream struct {
	t      *testing.T
	res    *http.Response
	events chan event // closed when the stream has ended
}

// streamWait bounds how long a test waits for an event: a revoked key is noticed after 3 s.
const streamWait = 10 * time.Second

func (r *rig) stream(t *testing.T, path, key string, header ...string) *stream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, %v", res.StatusCode, res.Header)
	}
	s := &stream{t: t, res: res, events: make(chan event, 64)}
	go s.read()
	t.Cleanup(s.close)
	return s
}

func (s *stream) close() { s.res.Body.Close() }

func (s *stream) read() {
	defer close(s.events)
	var e event
	for lines := bufio.NewScanner(s.res.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "": // a comment, or the end of an event
			if lines.Text() == "" {
				s.events <- e
				e = event{}
			}
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		}
	}
}

func (s *stream) next() event {
	s.t.Helper()
	select {
	case e, ok := <-s.events:
		if !ok {
			s.t.Fatal("the stream has ended")
		}
		return e
	case <-time.After(streamWait):
		s.t.Fatal("nothing comes")
	}
	return event{}
}

// begin reads where the stream begins.
func (s *stream) begin() string {
	s.t.Helper()
	e := s.next()
	if e.name != "" || e.id == "" {
		s.t.Fatalf("the stream begins with %+v", e)
	}
	return e.id
}

// over reads the end of the stream.
func (s *stream) over(reason string) {
	s.t.Helper()
	if e := s.next(); e.name != "ended" || !strings.Contains(e.data, `"`+reason+`"`) {
		s.t.Errorf("the stream ended with %+v, want %s", e, reason)
	}
	select {
	case e, ok := <-s.events:
		if ok {
			s.t.Errorf("after its end: %+v", e)
		}
	case <-time.After(streamWait):
		s.t.Error("the connection stays")
	}
}

// TestFeed follows a sandbox's life, goes away in the middle and comes back.
func TestFeed(t *testing.T) {
	r := newRig(t)
	r.template(t)
	s := r.stream(t, "/v1/events", r.key)
	s.begin()
	box := r.sandbox(t)
	var last string
	for _, want := range []string{"sandbox.created", "sandbox.running"} {
		e := s.next()
		var got gen.Event
		if err := json.Unmarshal([]byte(e.data), &got); err != nil {
			t.Fatal(err)
		}
		if e.name != want || string(got.Type) != want || got.Id != e.id || got.Sandbox == nil || *got.Sandbox != box.Id {
			t.Errorf("%+v, want %s", e, want)
		}
		last = e.id
	}
	s.close()
	r.do(t, "DELETE", "/v1/sandboxes/"+box.Id+"?wait=30s", nil).want(t, 200)
	back := r.stream(t, "/v1/events", r.key, "Last-Event-ID", last)
	if id := back.begin(); id != last {
		t.Errorf("it goes on after %s, not %s", id, last)
	}
	if e := back.next(); e.name != "sandbox.deleted" {
		t.Errorf("%+v", e)
	}
}

func TestFeedOfOneSandbox(t *testing.T) {
	r := newRig(t)
	other, box := r.sandbox(t), r.sandbox(t)
	s := r.stream(t, "/v1/events?sandbox="+box.Id, r.key, "Last-Event-ID", "0")
	s.begin()
	r.do(t, "DELETE", "/v1/sandboxes/"+other.Id+"?wait=30s", nil).want(t, 200)
	r.do(t, "DELETE", "/v1/sandboxes/"+box.Id+"?wait=30s", nil).want(t, 200)
	for _, want := range []string{"sandbox.created", "sandbox.running", "sandbox.deleted"} {
		if e := s.next(); e.name != want || !strings.Contains(e.data, box.Id) {
			t.Errorf("%+v, want %s", e, want)
		}
	}
}

// TestEventPages reads the same as the feed, a page at a time, and goes on later.
func TestEventPages(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	var got []string
	path := "/v1/events?limit=1"
	for range 20 {
		page := decode[gen.EventPage](t, r.do(t, "GET", path, nil).want(t, 200))
		path = "/v1/events?limit=1&cursor=" + page.NextCursor
		if len(page.Items) == 0 {
			break
		}
		got = append(got, string(page.Items[0].Type))
	}
	if want := []string{"key.created", "template.created", "template.ready", "sandbox.created", "sandbox.running"}; !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
	r.node.end(box.Id, space.ExecutionLost, space.Errorf(space.CodeExecutionLost, "the VMM was killed"))
	r.state(t, box.Id, gen.SandboxStateLost)
	page := decode[gen.EventPage](t, r.do(t, "GET", path, nil).want(t, 200))
	if len(page.Items) != 1 || page.Items[0].Type != gen.EventTypeSandboxLost || (*page.Items[0].Data)["code"] != "execution_lost" {
		t.Errorf("later: %+v", page)
	}
}

func TestFeedTellsOfAGap(t *testing.T) {
	r := newRig(t)
	r.sandbox(t)
	page := decode[gen.EventPage](t, r.do(t, "GET", "/v1/events?limit=1", nil))
	first := page.Items[0].Id
	r.sql(t, "UPDATE projects SET events_pruned = (SELECT number FROM events ORDER BY number OFFSET 2 LIMIT 1)")
	r.sql(t, "DELETE FROM events WHERE number <= (SELECT max(events_pruned) FROM projects)")
	s := r.stream(t, "/v1/events", r.key, "Last-Event-ID", first)
	if e := s.next(); e.name != "gap" || e.id == "" || !strings.Contains(e.data, e.id) {
		t.Errorf("%+v", e)
	}
	if e := s.next(); e.name != "sandbox.created" {
		t.Errorf("%+v", e)
	}
	if page := decode[gen.EventPage](t, r.do(t, "GET", "/v1/events?cursor="+page.NextCursor, nil)); page.Missed == nil || !*page.Missed {
		t.Errorf("%+v", page)
	}
}

func TestFeedEndsWithTheServer(t *testing.T) {
	r := newRig(t)
	s := r.stream(t, "/v1/events", r.key)
	s.begin()
	r.stop()
	s.over("shutting_down")
}

// TestRevokedKeyEndsWhatIsOpen revokes a key that follows events and waits for an operation: both end at once, and nothing more is let in.
func TestRevokedKeyEndsWhatIsOpen(t *testing.T) {
	r := newRig(t)
	r.template(t)
	waiting := make(chan struct{})
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionPending, nil }
	})
	operation := r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`).accepted(t).Id
	made := decode[gen.KeyCreated](t, r.do(t, "POST", "/v1/keys", `{"name":"short","role":"viewer"}`).want(t, 201))
	s := r.stream(t, "/v1/events", made.Secret)
	s.begin()
	go func() {
		defer close(waiting)
		r.do(t, "GET", "/v1/operations/"+operation+"?wait=300s", nil, "Authorization", "Bearer "+made.Secret).code(t, space.CodeUnauthenticated)
	}()
	r.do(t, "DELETE", "/v1/keys/"+made.Key.Id, nil).want(t, 204)
	if e := s.next(); e.name == "key.revoked" { // it may come before the end
		s.over("key_ended")
	} else if e.name != "ended" {
		t.Errorf("%+v", e)
	}
	<-waiting
	r.do(t, "GET", "/v1/me", nil, "Authorization", "Bearer "+made.Secret).code(t, space.CodeUnauthenticated)
}

// TestDemotedUserLosesWhatIsOpen changes a user's role behind this process's back: it's noticed within a few seconds.
func TestDemotedUserLosesWhatIsOpen(t *testing.T) {
	t.Parallel() // it waits for a look
	r := newRig(t)
	user := decode[gen.User](t, r.do(t, "POST", "/v1/users", `{"name":"u","role":"developer"}`).want(t, 201))
	made := decode[gen.KeyCreated](t, r.do(t, "POST", "/v1/keys", map[string]any{"name": "k", "user": user.Id}).want(t, 201))
	s := r.stream(t, "/v1/events", made.Secret)
	s.begin()
	r.sql(t, "UPDATE users SET removed_at = now()")
	s.over("key_ended")
}

func TestFeedsOfAProjectAreBounded(t *testing.T) {
	r := newRig(t)
	var open []*stream
	for range 32 {
		s := r.stream(t, "/v1/events", r.key)
		s.begin()
		open = append(open, s)
	}
	r.do(t, "GET", "/v1/events", nil, "Accept", "text/event-stream").code(t, space.CodeQuotaExceeded)
	r.do(t, "GET", "/v1/events", nil).want(t, 200)
	open[0].close()
	r.awaitFeed(t)
}

// awaitFeed waits until another feed can be opened.
func (r *rig) awaitFeed(t *testing.T) {
	t.Helper()
	for range 1000 {
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.url+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.key)
		req.Header.Set("Accept", "text/event-stream")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode == 200 {
			return
		}
	}
	t.Error("a feed that was closed still counts")
}
