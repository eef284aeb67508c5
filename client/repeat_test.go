package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// restarting is a control plane that breaks what it's asked after a time, refuses connections for a while, and then answers.
type restarting struct {
	broken  bool          // the first request is taken, and its answer lost
	away    time.Duration // for how long nobody listens
	answers []*http.Response
	began   time.Time
	asked   []string
	keys    []string // the same requests' Idempotency-Keys
}

func (p *restarting) RoundTrip(r *http.Request) (*http.Response, error) {
	p.asked, p.keys = append(p.asked, r.Method+" "+r.URL.Path), append(p.keys, r.Header.Get("Idempotency-Key"))
	switch {
	case p.broken:
		p.broken, p.began = false, time.Now()
		return nil, io.ErrUnexpectedEOF
	case time.Since(p.began) < p.away:
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	a := p.answers[0]
	if len(p.answers) > 1 {
		p.answers = p.answers[1:]
	}
	a.Request = r
	return a, nil
}

const (
	under     = `{"id":"op_1","kind":"suspend_sandbox","status":"running","created_at":"2026-01-02T03:04:05Z","sandbox":{"id":"sbx_1"}}`
	endedWell = `{"id":"op_1","kind":"suspend_sandbox","status":"succeeded","created_at":"2026-01-02T03:04:05Z","sandbox":{"id":"sbx_1","state":"suspended"},"snapshot":{"id":"snp_1"}}`
	noRoom    = `{"type":"t","title":"t","status":503,"code":"capacity_exhausted"}`
	restart   = 20 * time.Second
)

// TestWaitingRidesOutARestart: every call that waits for an operation hears how it ended, though the control plane was away meanwhile.
func TestWaitingRidesOutARestart(t *testing.T) {
	for name, do := range map[string]func(context.Context, *Client) error{
		"pause":   func(ctx context.Context, c *Client) error { _, err := c.PauseSandbox(ctx, "sbx_1"); return err },
		"resume":  func(ctx context.Context, c *Client) error { _, err := c.ResumeSandbox(ctx, "sbx_1"); return err },
		"suspend": func(ctx context.Context, c *Client) error { _, err := c.SuspendSandbox(ctx, "sbx_1"); return err },
		"restore": func(ctx context.Context, c *Client) error { _, err := c.RestoreSandbox(ctx, "sbx_1", true); return err },
		"wake":    func(ctx context.Context, c *Client) error { _, err := c.WakeSandbox(ctx, "sbx_1"); return err },
		"stop":    func(ctx context.Context, c *Client) error { _, err := c.StopSandbox(ctx, "sbx_1"); return err },
		"start":   func(ctx context.Context, c *Client) error { _, err := c.StartSandbox(ctx, "sbx_1"); return err },
		"snapshot": func(ctx context.Context, c *Client) error {
			_, err := c.CreateSnapshot(ctx, "sbx_1", SnapshotCreate{})
			return err
		},
		"create": func(ctx context.Context, c *Client) error {
			_, err := c.CreateSandbox(ctx, SandboxCreate{})
			return err
		},
		"delete": func(ctx context.Context, c *Client) error { return c.DeleteSandbox(ctx, "sbx_1") },
		"await": func(ctx context.Context, c *Client) error {
			_, err := c.Await(ctx, Operation{Id: "op_1", Status: "running"})
			return err
		},
	} {
		for _, taken := range []bool{true, false} { // the first request breaks, or one that waits for what is under way
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &restarting{broken: true, away: restart, answers: []*http.Response{answer(503, notReady), answer(200, endedWell)}}
					c := must(New("http://nowhere.invalid", "", WithHTTPClient(&http.Client{Transport: &first{skip: !taken, next: p}})))
					if err := do(t.Context(), c); err != nil {
						t.Fatalf("%v after %v", err, p.asked)
					}
				})
			})
		}
	}
}

// first answers the first request with an operation that is under way, if it's to be skipped.
type first struct {
	skip bool
	next http.RoundTripper
}

func (f *first) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.skip {
		f.skip = false
		a := answer(202, under)
		a.Request = r
		return a, nil
	}
	return f.next.RoundTrip(r)
}

const notReady = `{"type":"t","title":"t","status":503,"code":"unavailable"}`

// TestRollbackIsDoneOnce: a second one would give up what came after the first, so it's repeated under the same key; and what it waits for is waited for.
func TestRollbackIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &restarting{broken: true, answers: []*http.Response{answer(200, endedWell)}}
		c := must(New("http://nowhere.invalid", "", WithHTTPClient(&http.Client{Transport: p})))
		if _, err := c.RollbackSandbox(t.Context(), "sbx_1", "", false); err != nil || len(p.asked) < 2 {
			t.Errorf("%v after %v", err, p.asked)
		}
		if p.keys[0] == "" || p.keys[0] != p.keys[1] {
			t.Errorf("asked under the keys %q", p.keys)
		}
		p = &restarting{broken: true, away: restart, answers: []*http.Response{answer(200, endedWell)}}
		c = must(New("http://nowhere.invalid", "", WithHTTPClient(&http.Client{Transport: &first{skip: true, next: p}})))
		if _, err := c.RollbackSandbox(t.Context(), "sbx_1", "", false); err != nil {
			t.Errorf("%v after %v", err, p.asked)
		}
	})
}

// TestTheRideHasAnEnd: a control plane that doesn't come back is told within rideMost, one that isn't there at first soon, and a refusal that was heard, too.
func TestTheRideHasAnEnd(t *testing.T) {
	for _, x := range []struct {
		name    string
		p       *restarting
		do      func(context.Context, *Client) error
		at, not time.Duration // it fails between these
	}{
		{"it doesn't come back", &restarting{broken: true, away: time.Hour}, func(ctx context.Context, c *Client) error { _, err := c.PauseSandbox(ctx, "sbx_1"); return err }, rideMost, rideMost + 2*repeatLongest},
		{"it isn't there", &restarting{away: time.Hour}, func(ctx context.Context, c *Client) error { _, err := c.PauseSandbox(ctx, "sbx_1"); return err }, 0, 5 * time.Second},
		{"it isn't there for a read", &restarting{broken: true, away: time.Hour}, func(ctx context.Context, c *Client) error { _, err := c.GetSandbox(ctx, "sbx_1"); return err }, 0, 5 * time.Second},
		{"it has no room", &restarting{broken: true, answers: []*http.Response{answer(503, noRoom)}}, func(ctx context.Context, c *Client) error { _, err := c.StartSandbox(ctx, "sbx_1"); return err }, 0, 10 * time.Second},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				x.p.began = began
				err := x.do(t.Context(), must(New("http://nowhere.invalid", "", WithHTTPClient(&http.Client{Transport: x.p}))))
				if took := time.Since(began); err == nil || took < x.at || took > x.not {
					t.Errorf("%v after %s and %d requests", err, took, len(x.p.asked))
				}
			})
		})
	}
}

// TestWhatHasNoRoomIsRepeatedIfItIsNew: room may just have been made. What would wake a sandbox isn't: it was tried.
func TestWhatHasNoRoomIsRepeatedIfItIsNew(t *testing.T) {
	for name, x := range map[string]struct {
		do    func(context.Context, *Client) error
		tries int
	}{
		"create": {func(ctx context.Context, c *Client) error {
			_, err := c.CreateSandbox(ctx, SandboxCreate{})
			return err
		}, repeatMost},
		"fork": {func(ctx context.Context, c *Client) error {
			_, err := c.ForkSandbox(ctx, "sbx_1", SandboxFork{})
			return err
		}, repeatMost},
		"snapshot": {func(ctx context.Context, c *Client) error {
			_, err := c.CreateSnapshot(ctx, "sbx_1", SnapshotCreate{})
			return err
		}, repeatMost},
		"start": {func(ctx context.Context, c *Client) error { _, err := c.StartSandbox(ctx, "sbx_1"); return err }, 1},
		"a file": {func(ctx context.Context, c *Client) error {
			p := must(NewPlane("http://nowhere.invalid", "sbx_1", "spacesbx_x", WithHTTPClient(c.http)))
			_, err := p.StatFile(ctx, "/etc/passwd")
			return err
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &restarting{}
				for range repeatMost {
					p.answers = append(p.answers, answer(503, noRoom))
				}
				err := x.do(t.Context(), must(New("http://nowhere.invalid", "", WithHTTPClient(&http.Client{Transport: p}))))
				var refused *Error
				if !errors.As(err, &refused) || refused.Code != "capacity_exhausted" || len(p.asked) != x.tries {
					t.Errorf("%v after %v", err, p.asked)
				}
			})
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
