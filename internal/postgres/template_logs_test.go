package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/pgtest"
)

// at is a node's time.
func at(second int) time.Time { return time.Date(2026, 11, 30, 12, 0, second, 1000, time.UTC) }

func (s *scene) appendLog(t *testing.T, l record.LogSeen) {
	t.Helper()
	if _, err := s.store.Observe(t.Context(), record.Seen{Logs: []record.LogSeen{l}}); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) log(t *testing.T, template string, after int64, limit int) []record.LogLine {
	t.Helper()
	lines, _, err := s.store.TemplateLog(t.Context(), template, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestTemplateLog(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	one := record.LogLine{Number: 1, At: at(1), Text: "one"}
	two := record.LogLine{Number: 2, At: at(2), Step: 3, Text: "  zwei\tü"}
	s.appendLog(t, record.LogSeen{Template: s.tpl.ID, Lines: []record.LogLine{one, two}})
	if diff := cmp.Diff([]record.LogLine{one, two}, s.log(t, s.tpl.ID, 0, 10)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]record.LogLine{two}, s.log(t, s.tpl.ID, 1, 10)); diff != "" {
		t.Error(diff)
	}
	if got := s.log(t, s.tpl.ID, 0, 1); len(got) != 1 {
		t.Errorf("%d lines", len(got))
	}
	w, err := s.store.Wanted(t.Context(), s.name)
	if err != nil || w.Templates[0].Log.Newest != 2 || !w.Templates[0].Log.NewestAt.Equal(at(2)) {
		t.Errorf("head: %+v, %v", w.Templates, err)
	}
	// Another build: its lines go on counting, so that who read the ones before comes to these.
	s.appendLog(t, record.LogSeen{Template: s.tpl.ID, Anew: true, Lines: []record.LogLine{{Number: 1, At: at(5), Text: "anew"}}})
	got, before, err := s.store.TemplateLog(t.Context(), s.tpl.ID, 0, 10)
	if diff := cmp.Diff([]record.LogLine{{Number: 3, At: at(5), Text: "anew"}}, got); diff != "" || before != 2 || err != nil {
		t.Errorf("%s, before %d, %v", diff, before, err)
	}
	s.appendLog(t, record.LogSeen{Template: "tpl_gone", Lines: []record.LogLine{one}})
	s.audit(t)
}

// TestTemplateLogIsBounded prints more than is kept, in lines and in bytes: the newest ones stay.
func TestTemplateLogIsBounded(t *testing.T) {
	pool := pgtest.Pool(t)
	for name, x := range map[string]struct{ lines, size int }{"many lines": {20_400, 10}, "long lines": {2_600, 4096}} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, pool)
			number := int64(0)
			for number < int64(x.lines) {
				l := record.LogSeen{Template: s.tpl.ID}
				for range 400 {
					number++
					l.Lines = append(l.Lines, record.LogLine{Number: number, At: at(1), Text: fmt.Sprintf("%d %s", number, strings.Repeat("x", x.size))})
				}
				s.appendLog(t, l)
				if lines, bytes := s.count(t, "SELECT count(*) FROM template_log_lines"), s.count(t, "SELECT sum(octet_length(line)) FROM template_log_lines"); lines > 20_000 || bytes > 8<<20 {
					t.Fatalf("%d lines with %d bytes are kept", lines, bytes)
				}
			}
			if newest := s.log(t, s.tpl.ID, number-1, 10); len(newest) != 1 {
				t.Errorf("the newest line isn't there: %v", newest)
			}
			if oldest := s.log(t, s.tpl.ID, 0, 1)[0].Number; oldest == 1 || oldest > number/2 {
				t.Errorf("the oldest of %d lines is %d", number, oldest)
			}
			s.audit(t)
			if _, err := s.pool.Exec(t.Context(), "DELETE FROM template_logs"); err != nil {
				t.Fatal(err)
			}
		})
	}
}
