package space_test

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
)

// TestStateDiagram compares docs/states.md with the table: what people read is what the code does.
func TestStateDiagram(t *testing.T) {
	f, err := os.Open("docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var drawn []string
	for s := bufio.NewScanner(f); s.Scan(); {
		from, to, ok := strings.Cut(strings.TrimSpace(s.Text()), " --> ")
		if ok && from != "[*]" && to != "[*]" {
			drawn = append(drawn, from+" "+to)
		}
	}
	var coded []string
	for _, from := range space.States() {
		for _, to := range from.Next() {
			coded = append(coded, string(from)+" "+string(to))
		}
	}
	slices.Sort(drawn)
	slices.Sort(coded)
	if diff := cmp.Diff(coded, drawn); diff != "" {
		t.Errorf("docs/states.md differs from the transition table (-code +docs):\n%s", diff)
	}
}

func TestEveryStateIsKnownAndDeletable(t *testing.T) {
	for _, s := range space.States() {
		if !s.Known() {
			t.Errorf("state %s is not in the transition table", s)
		}
		for _, next := range s.Next() {
			if !next.Known() {
				t.Errorf("%s may become %s, which is no state", s, next)
			}
		}
		if s != space.StateDeleting && !s.Ended() && !s.CanBecome(space.StateDeleting) {
			t.Errorf("%s can't be deleted: every state can", s)
		}
	}
	if space.State("").Known() || space.State("").CanBecome(space.StateRunning) {
		t.Error("the empty state must not be a state")
	}
}
