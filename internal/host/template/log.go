package template

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	space "github.com/space-platform/space"
)

// Limits of a build's log.
const (
	maxLine        = 4 << 10 // bytes of a line
	maxReportLines = 200
	maxReportBytes = 64 << 10
	maxKeptLines   = 5000 // that the control plane doesn't have yet
	maxKeptBytes   = 1 << 20
)

// Line is a line of a build's log. Numbers count up from 1.
type Line struct {
	Number uint64
	At     time.Time
	Step   int // from 1; 0: the source
	Text   string
}

// buildLog keeps the lines that the control plane doesn't have. When it's too much the oldest go, and a line says so.
type buildLog struct {
	lines []Line
	bytes int
	last  uint64
}

// add adds a line.
func (l *buildLog) add(step int, text string) {
	text = strings.ToValidUTF8(text, "�")
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "")
	}
	l.last++
	l.lines = append(l.lines, Line{Number: l.last, At: time.Now(), Step: step, Text: text})
	l.bytes += len(text)
	if len(l.lines) > maxKeptLines || l.bytes > maxKeptBytes {
		l.drop()
	}
}

// failed adds why a build failed.
func (l *buildLog) failed(step int, err error) {
	text := err.Error()
	var e *space.Error
	if errors.As(err, &e) {
		text = e.Message
	}
	for line := range strings.Lines("the build failed: " + text) {
		l.add(step, strings.TrimRight(line, "\n"))
	}
}

// drop lets a quarter of the lines go and puts one in their place, with the number of the last of them.
func (l *buildLog) drop() {
	gone := len(l.lines) / 4
	marker := l.lines[gone-1]
	marker.Text = fmt.Sprintf("… lines up to %d were dropped: nobody took them in time", marker.Number)
	l.lines = append([]Line{marker}, l.lines[gone:]...)
	l.bytes = 0
	for _, line := range l.lines {
		l.bytes += len(line.Text)
	}
}

// acknowledge forgets the lines up to a number; one that's beyond the log means another build's.
func (l *buildLog) acknowledge(n uint64) {
	if n > l.last {
		return
	}
	for len(l.lines) > 0 && l.lines[0].Number <= n {
		l.bytes -= len(l.lines[0].Text)
		l.lines = l.lines[1:]
	}
}

// report returns the first lines, as many as a report takes.
func (l *buildLog) report() []Line {
	size := 0
	for n, line := range l.lines {
		if size += len(line.Text); n == maxReportLines || size > maxReportBytes {
			return append([]Line(nil), l.lines[:n]...)
		}
	}
	return append([]Line(nil), l.lines...)
}

// lineWriter cuts what a command prints into lines.
type lineWriter struct {
	emit func(line string)
	rest []byte
}

// Write takes the next bytes.
func (w *lineWriter) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			break
		}
		w.put(line)
		w.flush()
		b = rest
	}
	w.put(b)
	return n, nil
}

// put takes a part of a line; a line that's too long becomes several.
func (w *lineWriter) put(b []byte) {
	for len(w.rest)+len(b) > maxLine {
		room := maxLine - len(w.rest)
		w.rest = append(w.rest, b[:room]...)
		b = b[room:]
		w.flush()
	}
	w.rest = append(w.rest, b...)
}

// flush ends the line. What a command prints over its own line is of no use in a log: what's behind the last carriage return stays.
func (w *lineWriter) flush() {
	line := strings.TrimRight(string(w.rest), "\r")
	if i := strings.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	w.rest = w.rest[:0]
	w.emit(line)
}

// close ends the last line, unless it's empty.
func (w *lineWriter) close() {
	if len(w.rest) > 0 {
		w.flush()
	}
}
