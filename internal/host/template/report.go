package template

import (
	"slices"
	"strings"
	"time"
)

func (s *Store) update(change, tell func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	tell()
}

// tellSoon says a little later that a report has changed, once for all lines until then.
func (s *Store) tellSoon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.telling == nil && !s.closed {
		s.telling = time.AfterFunc(logPause, func() {
			s.update(func() { s.telling = nil }, s.cfg.Changed)
		})
	}
}

// Acknowledge says which lines of builds' logs the control plane has, by their templates. That lines aren't told any more is a change, too: a report
// that goes on to tell them is answered at once, so no order could be waited for.
func (s *Store) Acknowledge(received map[string]uint64) {
	s.mu.Lock()
	fewer := false
	for id, n := range received {
		if e, ok := s.templates[id]; ok {
			before := len(e.log.lines)
			e.log.acknowledge(n)
			fewer = fewer || len(e.log.lines) < before
		}
	}
	s.mu.Unlock()
	if fewer {
		s.cfg.Changed()
	}
}

// Reports returns what is known of all templates, in the order of their ids.
func (s *Store) Reports() []Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Report
	for _, e := range s.templates {
		if e.removing {
			continue
		}
		r := e.Report
		r.Log = e.log.report()
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Report) int { return strings.Compare(a.Template, b.Template) })
	return out
}
