package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// series is sandboxes that are due to take a snapshot of themselves.
type series struct {
	due   []string
	fails map[string]error
	taken chan string
}

func (s *series) ToRoll(_ context.Context, _ time.Time, after string, limit int) (out []record.SnapshotOwner, _ error) {
	for _, id := range s.due {
		if id > after && len(out) < limit {
			out = append(out, record.SnapshotOwner{Sandbox: id})
		}
	}
	return out, nil
}

func (s *series) Roll(_ context.Context, _, id string) (bool, error) {
	if err := s.fails[id]; err != nil {
		return false, err
	}
	s.taken <- id
	return true, nil
}

// TestRollRound has more sandboxes than a batch, of which some can't and one fails: the others take a snapshot, and the failure is told.
func TestRollRound(t *testing.T) {
	s := &series{fails: map[string]error{}, taken: make(chan string, 3*batch)}
	for n := range 2*batch + 10 {
		s.due = append(s.due, fmt.Sprintf("sbx_%04d", n))
	}
	s.fails[s.due[3]] = space.Errorf(space.CodeConflict, "busy")
	s.fails[s.due[4]] = space.Errorf(space.CodeQuotaExceeded, "full")
	s.fails[s.due[5]] = errors.New("the store is away")
	if err := rollRound(t.Context(), s, s); err == nil || !strings.Contains(err.Error(), "away") || strings.Contains(err.Error(), "busy") {
		t.Errorf("the round says %v", err)
	}
	close(s.taken)
	var got []string
	for id := range s.taken {
		got = append(got, id)
	}
	slices.Sort(got)
	want := slices.Concat(s.due[:3], s.due[6:])
	if !slices.Equal(got, want) {
		t.Errorf("%d take a snapshot, want %d", len(got), len(want))
	}
}
