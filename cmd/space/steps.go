package main

import (
	"fmt"
	"io"
	"time"
)

// steps tells people what a long command does while it does it: a line per step, with its time.
type steps struct {
	to    io.Writer
	began time.Time
}

func newSteps(to io.Writer) *steps { return &steps{to: to, began: time.Now()} }

// do runs one step. A step that returns no note was nothing worth a word but its time.
func (s *steps) do(name string, step func() (note string, err error)) error {
	began := time.Now()
	fmt.Fprintf(s.to, "• %s …\n", name)
	note, err := step()
	if err != nil {
		return err
	}
	if note != "" {
		note = ": " + note
	}
	fmt.Fprintf(s.to, "  %s%s (%s)\n", "done", note, seconds(time.Since(began)))
	return nil
}

// total is the time since the first step.
func (s *steps) total() time.Duration { return time.Since(s.began) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
