package activity_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/space-platform/space/internal/control/activity"
)

// shelf keeps what it's told, unless it's broken.
type shelf struct {
	broken bool
	kept   []map[string]time.Time
	sent   []map[string]time.Time
}

func (s *shelf) TouchSent(_ context.Context, at map[string]time.Time) error {
	if s.broken {
		return errors.New("away")
	}
	s.sent = append(s.sent, maps.Clone(at))
	return nil
}

func (s *shelf) Touch(_ context.Context, at map[string]time.Time) error {
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
