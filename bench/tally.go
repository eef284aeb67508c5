package main

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/space-platform/space/internal/durable"
)

const (
	maxTally     = 1 << 20 // bytes of a tally on file
	maxShown     = 100     // failures and seeds that are kept with their details
	refusedShown = 5       // refusals that are told of each minute
	soakGoal     = 1_500_000
)

// tally counts the sessions of all soaks that were ever run here. It's on file, and goes on from there.
type tally struct {
	Sessions int            `json:"sessions"` // that were created; each is delivered whole, or a failure
	Failures int            `json:"failures"` // exit or output not delivered after the client's documented retries, or not exactly
	Refused  int            `json:"refused"`  // requests to create or delete that weren't taken after the client's retries, and were made again
	Minutes  float64        `json:"minutes"`
	Kills    map[string]int `json:"kills"` // by role
	Seeds    []uint64       `json:"seeds"` // of the last runs
	Failed   []failure      `json:"failed,omitempty"`

	path  string
	mu    sync.Mutex
	since time.Time // what Minutes doesn't have yet
	told  []time.Time
}

// failure is one session that went wrong.
type failure struct {
	At      time.Time `json:"at"`
	Seed    uint64    `json:"seed"`
	Session string    `json:"session"`
	What    string    `json:"what"`
}

func openTally(path string) (*tally, error) {
	t := &tally{path: path}
	if err := durable.ReadJSON(path, maxTally, t); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the tally: %w", err)
	}
	if t.Kills == nil {
		t.Kills = map[string]int{}
	}
	return t, nil
}

func (t *tally) begin(seed uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since = time.Now()
	t.Seeds = last(append(t.Seeds, seed))
}

func (t *tally) succeed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Sessions++
}

func (t *tally) fail(session, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Sessions++
	t.Failures++
	t.Failed = last(append(t.Failed, failure{At: time.Now(), Seed: t.Seeds[len(t.Seeds)-1], Session: session, What: what}))
}

// refuse counts a refusal, and reports whether it's worth a line.
func (t *tally) refuse(error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Refused++
	now := time.Now()
	for len(t.told) > 0 && now.Sub(t.told[0]) > time.Minute {
		t.told = t.told[1:]
	}
	if len(t.told) >= refusedShown {
		return false
	}
	t.told = append(t.told, now)
	return true
}

func (t *tally) kill(role string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Kills[role]++
}

// keep writes the tally down.
func (t *tally) keep() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.Minutes = round(t.Minutes + now.Sub(t.since).Minutes())
	t.since = now
	if err := durable.WriteJSON(t.path, t, 0o644); err != nil {
		return fmt.Errorf("keep the tally: %w", err)
	}
	return nil
}

func (t *tally) end() error { return t.keep() }

// verdict is an error if anything ever failed.
func (t *tally) verdict() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Failures == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d sessions failed; %s has the last ones", t.Failures, t.Sessions, t.path)
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kills := 0
	for _, n := range t.Kills {
		kills += n
	}
	return fmt.Sprintf("%d sessions of %d, %d failures, %d requests refused, %d daemons killed, %.0f minutes", t.Sessions, soakGoal, t.Failures, t.Refused, kills, t.Minutes)
}

func last[T any](s []T) []T { return s[max(0, len(s)-maxShown):] }
