package record

import "time"

// LogLine is a line of a build's log.
type LogLine struct {
	Number int64 // from 1; as its node counts in what a node reports, over all builds of the template in what is kept
	At     time.Time
	Step   int // from 1; 0 for the source
	Text   string
}

// LogHead is how far a template's log is recorded, as its node counts. The zero value is before the first line.
type LogHead struct {
	Newest   int64
	NewestAt time.Time
}

// LogSeen are new lines of a template's log.
type LogSeen struct {
	Template string
	Anew     bool // they are another build's than those before
	Lines    []LogLine
}
