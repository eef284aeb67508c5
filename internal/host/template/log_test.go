package template

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestLogReportsWhatNobodyHas(t *testing.T) {
	var l buildLog
	for n := range 3 * maxReportLines {
		l.add(1, fmt.Sprint("line ", n+1))
	}
	taken := uint64(0)
	for range 3 {
		r := l.report()
		if len(r) != maxReportLines || r[0].Number != taken+1 || r[0].Text != fmt.Sprint("line ", taken+1) {
			t.Fatalf("after %d: %d lines from %+v", taken, len(r), r[0])
		}
		taken = r[len(r)-1].Number
		l.acknowledge(taken)
		l.acknowledge(taken + 10_000) // of another build
	}
	if len(l.report()) != 0 || l.bytes != 0 {
		t.Errorf("left are %v, %d", l.report(), l.bytes)
	}
}

func TestLogIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l buildLog
		size := rapid.IntRange(0, 2*maxLine).Draw(t, "size")
		for range rapid.IntRange(1, 12_000).Draw(t, "lines") {
			l.add(0, strings.Repeat("é", size/2))
		}
		if len(l.lines) > maxKeptLines || l.bytes > maxKeptBytes {
			t.Fatalf("%d lines, %d bytes", len(l.lines), l.bytes)
		}
		before, size := uint64(0), 0
		for _, line := range l.lines {
			if line.Number <= before || len(line.Text) > maxLine || !utf8.ValidString(line.Text) {
				t.Fatalf("after %d: %+v", before, line)
			}
			before = line.Number
		}
		r := l.report()
		for _, line := range r {
			size += len(line.Text)
		}
		if len(r) == 0 || len(r) > maxReportLines || size > maxReportBytes {
			t.Fatalf("a report of %d lines, %d bytes", len(r), size)
		}
	})
}

func TestLinesOfOutput(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for output, want := range map[string][]string{
		"":                       nil,
		"a":                      {"a"},
		"a\nb\n":                 {"a", "b"},
		"\n\n":                   {"", ""},
		"a\r\nb":                 {"a", "b"},
		"10 %\r20 %\r100 %\nend": {"100 %", "end"},
		long + "y\n":             {long, "y"},
		long + "\nz":             {long, "z"},
		long + long + "y":        {long, long, "y"},
	} {
		for _, step := range []int{1, 7, len(output) + 1} {
			if step == 1 && len(output) > 1000 {
				continue
			}
			var got []string
			w := lineWriter{emit: func(l string) { got = append(got, l) }}
			for rest := output; rest != ""; rest = rest[min(step, len(rest)):] {
				w.Write([]byte(rest[:min(step, len(rest))]))
			}
			w.close()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%.20q in steps of %d: %s", output, step, diff)
			}
		}
	}
}

// TestAcknowledgedLinesAreAChange: a report that goes on to tell them would never be let hang.
func TestAcknowledgedLinesAreAChange(t *testing.T) {
	changes := 0
	s := &Store{templates: map[string]*entry{"tpl_x": {}}, cfg: Config{Changed: func() { changes++ }}}
	s.templates["tpl_x"].log.add(0, "a")
	s.templates["tpl_x"].log.add(0, "b")
	for range 2 { // the second time it says nothing new
		s.Acknowledge(map[string]uint64{"tpl_x": 2})
	}
	if changes != 1 {
		t.Errorf("the report has changed %d times, want once", changes)
	}
}
