package client

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestFollowEventsTellsAGap: what is missed is told once, with the number to go on from, and the reader goes on there after a cut.
func TestFollowEventsTellsAGap(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		if len(asked) == 1 {
			io.WriteString(w, "event: gap\nid: 40\ndata: {\"to\":\"40\"}\n\n")
			return
		}
		io.WriteString(w, "event: sandbox.created\nid: 41\ndata: {\"id\":\"41\",\"type\":\"sandbox.created\",\"at\":\"2026-01-02T03:04:05Z\",\"sandbox\":\"sbx_1\"}\n\n")
	}))
	defer s.Close()
	c, err := New(s.URL, "space_x")
	if err != nil {
		t.Fatal(err)
	}
	var got []LifecycleEvent
	for e, err := range c.FollowEvents(t.Context(), "", "7") {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e); len(got) == 2 {
			break
		}
	}
	if got[0].Type != EventsMissed || got[0].Id != "40" || !got[0].At.IsZero() || got[0].Sandbox != nil {
		t.Errorf("%+v, want a gap up to 40", got[0])
	}
	if got[1].Id != "41" || got[1].Type != "sandbox.created" || !got[1].At.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) || *got[1].Sandbox != "sbx_1" {
		t.Errorf("%+v", got[1])
	}
	if fmt.Sprint(asked) != "[7 40]" {
		t.Errorf("asked for what is after %q", asked)
	}
}
