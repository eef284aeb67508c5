package client

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// scripted answers requests in order; the last answer is for all that follow. It notes which of them let a sandbox sleep, and when.
type scripted struct {
	answers []*http.Response
	sleep   []bool
	at      []time.Time
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		io.Copy(io.Discard, r.Body)
	}
	s.sleep, s.at = append(s.sleep, r.URL.Query().Get("wake") == "false"), append(s.at, time.Now())
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	a.Request = r
	return a, nil
}

func answer(status int, text string) *http.Response {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}}
}

const (
	greeting  = "event: started\nid: 0\ndata: {\"at\":\"2026-01-02T03:04:05Z\"}\n\nevent: stdout\nid: 3\ndata: {\"data\":\"YWJj\"}\n\n"
	asleep    = "event: ended\ndata: {\"reason\":\"suspended\"}\n\n"
	rest      = "event: stdout\nid: 6\ndata: {\"data\":\"ZGVm\"}\n\nevent: exit\nid: 6\ndata: {\"code\":0}\n\n"
	notYet    = `{"type":"t","title":"t","status":504,"code":"timeout"}`
	elsewhere = `{"type":"t","title":"t","status":409,"code":"route_stale"}`
)

// TestASuspendedSandboxIsWaitedForAndNotWoken: for as long as it takes, with pauses that stay short, told once.
func TestASuspendedSandboxIsWaitedForAndNotWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answers: []*http.Response{answer(200, greeting+asleep)}}
		for range 20 * attachMost {
			s.answers = append(s.answers, answer(200, asleep))
		}
		for range attachMost { // it's being restored, which takes its time
			s.answers = append(s.answers, answer(504, notYet))
		}
		s.answers = append(s.answers, answer(200, rest))
		c, err := New("http://nowhere.invalid", "", WithHTTPClient(&http.Client{Transport: s}))
		if err != nil {
			t.Fatal(err)
		}
		told, joined, got := 0, 0, ""
		for e, err := range c.Attach(t.Context(), Session{Id: "ses_1"}, Attachment{Url: "http://nowhere.invalid/"}, WhenSuspended(func() { told++ }), WhenJoined(func() { joined++ })) {
			if err != nil {
				t.Fatal(err)
			}
			got += string(e.Data)
		}
		if got != "abcdef" || told != 1 || joined != 1 {
			t.Errorf("it printed %q, was told %d times that it sleeps, and %d that it has joined", got, told, joined)
		}
		for i, sleep := range s.sleep {
			if sleep != (i > 0) {
				t.Fatalf("attempt %d lets it sleep: %t", i, sleep)
			}
			if i > 0 && s.at[i].Sub(s.at[i-1]) > 2*attachLongest {
				t.Errorf("%s before attempt %d", s.at[i].Sub(s.at[i-1]), i)
			}
		}
	})
}

// TestInputWaitsForASuspendedSandbox: what was sent when it was suspended is sent again when it's woken, and wakes nothing.
func TestInputWaitsForASuspendedSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answers: []*http.Response{answer(409, elsewhere)}}
		for range 3 * attachMost {
			s.answers = append(s.answers, answer(504, notYet))
		}
		s.answers = append(s.answers, answer(200, `{"received":2}`), answer(200, `{"received":4}`))
		p, err := NewPlane("http://nowhere.invalid", "sbx_1", "spacesbx_x", WithHTTPClient(&http.Client{Transport: s}))
		if err != nil {
			t.Fatal(err)
		}
		n, err := p.SendStdin(t.Context(), "ses_1", 0, strings.NewReader("keys"), false)
		if n != 4 || err != nil {
			t.Errorf("sent %d, %v", n, err)
		}
		for i, sleep := range s.sleep {
			if sleep != (i > 0) {
				t.Fatalf("request %d lets it sleep: %t", i, sleep)
			}
		}
	})
}

// TestInputGivesUpOnWhatDoesntWake: each request asks for the sandbox to be woken until one was let in, and there's an end of them.
func TestInputGivesUpOnWhatDoesntWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		for range attachMost + 1 {
			s.answers = append(s.answers, answer(504, notYet))
		}
		p, err := NewPlane("http://nowhere.invalid", "sbx_1", "spacesbx_x", WithHTTPClient(&http.Client{Transport: s}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.SendStdin(t.Context(), "ses_1", 0, strings.NewReader("keys"), false); !isTimeout(err) || len(s.sleep) > attachMost || slices.Contains(s.sleep, true) {
			t.Errorf("%v after requests that let it sleep: %v", err, s.sleep)
		}
	})
}

// TestACreatedSessionWakesUntilItsLetIn: a connection that breaks while the sandbox is about to wake has nobody's wish fulfilled.
func TestACreatedSessionWakesUntilItsLetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		created := "event: created\ndata: {\"session\":{\"id\":\"ses_1\",\"sandbox\":\"sbx_1\"},\"attachment\":{}}\n\n"
		s := &scripted{answers: []*http.Response{answer(201, created), answer(504, notYet), answer(200, greeting), answer(200, rest)}}
		p, err := NewPlane("http://nowhere.invalid", "sbx_1", "spacesbx_x", WithHTTPClient(&http.Client{Transport: s}))
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range p.Run(t.Context(), SessionCreate{Argv: &[]string{"true"}}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if want := []bool{false, false, false, true}; !slices.Equal(s.sleep, want) {
			t.Errorf("the requests let it sleep: %v, want %v", s.sleep, want)
		}
	})
}

// TestAWakeForWhichThereIsNoRoomIsToldAtOnce: to come back makes no room, and each time the node would begin to wake the sandbox again.
func TestAWakeForWhichThereIsNoRoomIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answers: []*http.Response{answer(503, noRoom)}}
		c := must(New("http://nowhere.invalid", "", WithHTTPClient(&http.Client{Transport: s})))
		for _, err := range c.Attach(t.Context(), Session{Id: "ses_1"}, Attachment{Url: "http://nowhere.invalid/"}) {
			var refused *Error
			if !errors.As(err, &refused) || refused.Code != "capacity_exhausted" {
				t.Error(err)
			}
		}
		if len(s.at) != 1 {
			t.Errorf("%d requests", len(s.at))
		}
	})
}
