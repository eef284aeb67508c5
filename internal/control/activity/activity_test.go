package activity_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/space-platform/space/internal/control/activity"
)

// shelf keeps what it's told, unless it's broken.
type shelf struct {
	mu     sync.Mutex
	broken bool
	kept   []map[string]time.Time
	sent   []map[string]time.Time
}

func (s *shelf) TouchSent(_ context.Context, at map[string]time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return errors.New("away")
	}
	s.sent = append(s.sent, maps.Clone(at))
	return nil
}

func (s *shelf) Touch(_ context.Context, at map[string]time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return errors.New("away")
	}
	s.kept = append(s.kept, maps.Clone(at))
	return nil
}

// TestTheNewestIsWrittenOnce has the store be away for a while.
func TestTheNewestIsWrittenOnce(t *testing.T) {
	s := &shelf{broken: true}
	a := activity.New(s)
	at := time.Unix(1000, 0)
	a.Seen("sbx_1", at.Add(time.Second))
	a.Seen("sbx_1", at)
	if err := a.Flush(t.Context()); err == nil {
		t.Error("what couldn't be written is said to be")
	}
	a.Seen("sbx_2", at)
	a.Sent("sbx_3", at)
	s.broken = false
	for range 2 {
		if err := a.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(s.kept) != 1 || len(s.kept[0]) != 2 || !s.kept[0]["sbx_1"].Equal(at.Add(time.Second)) {
		t.Errorf("written: %v", s.kept)
	}
	if len(s.sent) != 1 || len(s.sent[0]) != 1 || !s.sent[0]["sbx_3"].Equal(at) {
		t.Errorf("written of what was sent: %v", s.sent)
	}
}

// TestAQuietSandboxIsWrittenSoon: another process may take it for idle. One that was written a moment ago waits, and so does a crowd.
func TestAQuietSandboxIsWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(shelf)
		a := activity.New(s)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { a.Run(ctx); close(ended) }()
		writes := func(want int, sandboxes ...string) {
			t.Helper()
			for _, id := range sandboxes {
				a.Seen(id, time.Now())
			}
			time.Sleep(time.Second) // of the bubble's clock
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.kept) != want {
				t.Errorf("after %v: written %d times, want %d", sandboxes, len(s.kept), want)
			}
		}
		writes(1, "sbx_1")
		writes(1, "sbx_1", "sbx_1")
		writes(2, "sbx_2")
		time.Sleep(10 * time.Second)
		writes(2, "sbx_1", "sbx_2")
		time.Sleep(20 * time.Second)
		writes(3) // what waited, in its time
		time.Sleep(5 * time.Minute)
		writes(4, "sbx_1")
		cancel()
		<-ended
	})
}
