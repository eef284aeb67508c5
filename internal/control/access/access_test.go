package access

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/activity"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/token"
	"github.com/space-platform/space/internal/control/wake"
)

// changing is a store and sandboxes of which there is one, that changes with each read; the last one stays.
type changing struct {
	Store
	boxes  []record.Sandbox
	bearer record.Bearer
	wakes  int
}

func (c *changing) Get(context.Context, string, string) (record.Sandbox, error) {
	b := c.boxes[0]
	if len(c.boxes) > 1 {
		c.boxes = c.boxes[1:]
	}
	return b, nil
}

// Wake begins an operation each time: the one before has ended.
func (c *changing) Wake(context.Context, string, string) (string, error) {
	c.wakes++
	return fmt.Sprintf("op_%d", c.wakes), nil
}

// Woken says that it failed.
func (c *changing) Woken(_ context.Context, _, operation string) error {
	return space.Errorf(space.CodeSnapshotUnusable, "%s failed", operation)
}

func (c *changing) Bearer(context.Context, record.TokenHash) (record.Bearer, error) {
	return c.bearer, nil
}

func box(desired record.Desired, observed space.ExecutionState) record.Sandbox {
	return record.Sandbox{ID: "sbx_1", Desired: desired, Execution: record.Execution{Observed: observed}}
}

func TestResolveToken(t *testing.T) {
	pending, runs := box(record.DesiredRunning, space.ExecutionPending), box(record.DesiredRunning, space.ExecutionRunning)
	started := pending
	started.Execution.DiskOf = "exe_0"
	mine := record.Bearer{Sandbox: "sbx_1"}
	for _, x := range []struct {
		name   string
		boxes  []record.Sandbox
		bearer record.Bearer
		want   space.Code
		after  time.Duration
	}{
		{name: "runs", boxes: []record.Sandbox{runs}, bearer: mine},
		{name: "comes up", boxes: []record.Sandbox{pending, pending, runs}, bearer: mine, after: 2 * time.Second},
		{name: "is started", boxes: []record.Sandbox{started, started, runs}, bearer: mine, after: 2 * time.Second},
		{name: "doesn't come up", boxes: []record.Sandbox{pending}, bearer: mine, want: space.CodeTimeout, after: StartWait},
		{name: "stopping", boxes: []record.Sandbox{box(record.DesiredStopped, space.ExecutionRunning)}, bearer: mine, want: space.CodeConflict},
		{name: "stopped", boxes: []record.Sandbox{box(record.DesiredStopped, space.ExecutionStopped)}, bearer: mine, want: space.CodeConflict},
		{name: "failed", boxes: []record.Sandbox{box(record.DesiredRunning, space.ExecutionFailed)}, bearer: mine, want: space.CodeConflict},
		{name: "lost", boxes: []record.Sandbox{box(record.DesiredRunning, space.ExecutionLost)}, bearer: mine, want: space.CodeExecutionLost},
		{name: "deleted", boxes: []record.Sandbox{box(record.DesiredDeleted, space.ExecutionRunning)}, bearer: mine, want: space.CodeExecutionLost},
		{name: "another's", boxes: []record.Sandbox{runs}, bearer: record.Bearer{Sandbox: "sbx_2"}, want: space.CodeForbidden},
		{name: "another's, expired", boxes: []record.Sandbox{runs}, bearer: record.Bearer{Sandbox: "sbx_2", Expired: true}, want: space.CodeForbidden},
		{name: "expired", boxes: []record.Sandbox{runs}, bearer: record.Bearer{Sandbox: "sbx_1", Expired: true}, want: space.CodeTokenExpired},
		{name: "revoked early", boxes: []record.Sandbox{runs}, bearer: record.Bearer{Sandbox: "sbx_1", Revoked: true}, want: space.CodeUnauthenticated},
		{name: "revoked", boxes: []record.Sandbox{runs}, bearer: record.Bearer{Sandbox: "sbx_1", Revoked: true, Expired: true}, want: space.CodeUnauthenticated},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &changing{boxes: x.boxes, bearer: x.bearer}
				began := time.Now()
				_, err := New(c, c, activity.New(nil), new(wake.Bell), "").ResolveToken(t.Context(), string(token.Sandbox)+strings.Repeat("a", 52), "sbx_1")
				if after := time.Since(began); space.CodeOf(err) != x.want || after != x.after {
					t.Errorf("after %s: %v", after, err)
				}
			})
		})
	}
}

// revoking knows a token that is revoked once it was asked for.
type revoking struct {
	*changing
	asked int
}

func (r *revoking) Bearer(ctx context.Context, h record.TokenHash) (record.Bearer, error) {
	r.asked++
	b, err := r.changing.Bearer(ctx, h)
	b.Revoked = r.asked > 1
	return b, err
}

// TestRevokedWhileItWaits: who shows a token for a sandbox that comes up has it then, or nothing; for one that runs it's asked once.
func TestRevokedWhileItWaits(t *testing.T) {
	pending, runs := box(record.DesiredRunning, space.ExecutionPending), box(record.DesiredRunning, space.ExecutionRunning)
	for want, boxes := range map[space.Code][]record.Sandbox{space.CodeUnauthenticated: {pending, pending, runs}, "": {runs}} {
		synctest.Test(t, func(t *testing.T) {
			r := &revoking{changing: &changing{boxes: boxes, bearer: record.Bearer{Sandbox: "sbx_1"}}}
			_, err := New(r, r, activity.New(nil), new(wake.Bell), "").ResolveToken(t.Context(), string(token.Sandbox)+strings.Repeat("a", 52), "sbx_1")
			if space.CodeOf(err) != want {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// TestWhatCannotBeWokenIsntWokenAnewAndAnew has a request for a sandbox whose restore fails each time.
func TestWhatCannotBeWokenIsntWokenAnewAndAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asleep := box(record.DesiredSuspended, space.ExecutionSuspended)
		asleep.Lifecycle.AutoWake = true
		c := &changing{boxes: []record.Sandbox{asleep}, bearer: record.Bearer{Sandbox: "sbx_1"}}
		_, err := New(c, c, activity.New(nil), new(wake.Bell), "").ResolveToken(t.Context(), string(token.Sandbox)+strings.Repeat("a", 52), "sbx_1")
		if space.CodeOf(err) != space.CodeSnapshotUnusable || !strings.Contains(err.Error(), "op_1") || c.wakes != 1 {
			t.Errorf("after %d wakes: %v", c.wakes, err)
		}
	})
}

// TestSignaturesDiffer signs two things that differ in anything, or under another key: the signatures differ.
func TestSignaturesDiffer(t *testing.T) {
	short := rapid.StringOfN(rapid.RuneFrom([]rune("ab/")), 0, 3, -1) // so that parts often have the same characters in a row
	thing := func(t *rapid.T, name string) ([]byte, string, FileURL) {
		key := bytes.Repeat([]byte{byte(rapid.IntRange(1, 2).Draw(t, name+" key"))}, keyBytes)
		return key, short.Draw(t, name+" sandbox"), FileURL{
			Path: short.Draw(t, name+" path"), Operation: short.Draw(t, name+" operation"), User: short.Draw(t, name+" user"),
			Expires: rapid.Int64Range(1, 3).Draw(t, name+" time"),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		k1, s1, u1 := thing(t, "first")
		k2, s2, u2 := thing(t, "second")
		same := bytes.Equal(k1, k2) && s1 == s2 && u1 == u2
		if got := sign(k1, s1, u1) == sign(k2, s2, u2); got != same {
			t.Fatalf("%s %+v and %s %+v: same signature %v", s1, u1, s2, u2, got)
		}
	})
}

func TestNewSecrets(t *testing.T) {
	plain, repeated := record.Request{}, record.Request{Key: "k"}
	a, b := newSecret("space_key", "tok_1", plain), newSecret("space_key", "tok_1", plain)
	if a == b || !token.Sandbox.Is(a) {
		t.Errorf("without an Idempotency-Key: %s, %s", a, b)
	}
	first := newSecret("space_key", "tok_1", repeated)
	if !token.Sandbox.Is(first) || first != newSecret("space_key", "tok_1", repeated) {
		t.Error("the same request has another secret")
	}
	if first == newSecret("space_other", "tok_1", repeated) || first == newSecret("space_key", "tok_2", repeated) {
		t.Error("another key, or another token, has the same secret")
	}
}
