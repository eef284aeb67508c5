package monitor

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestLastWordsOutlastABusyMachine has the time over before anything was read: what the pipe holds is taken all the same, and nobody waits for more.
func TestLastWordsOutlastABusyMachine(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close() // by another process that holds it
	if _, err := w.WriteString(strings.Repeat("filler\n", 5000) + "the end\n"); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	s := &Said{r: r}
	s.read()
	if said := s.Last(); !strings.HasSuffix(said, "\nthe end") {
		t.Errorf("it said %q", said[max(0, len(said)-20):])
	}
}
