package session

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/space-platform/space/internal/host/ring"
)

// retention has the ended sessions that still have output. Those that ended first lose theirs when all of it is too much.
type retention struct {
	limit int64 // bytes
	log   *slog.Logger

	mu    sync.Mutex // guards what follows
	ended []*Session // in the order of their ends
	kept  int64      // bytes that those keep
}

// add adds a session that has ended. The newest one keeps its output whatever its size.
func (s *retention) add(ses *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, ses)
	s.kept += ring.Stored(ses.dir)
	for s.kept > s.limit && len(s.ended) > 1 {
		oldest := s.ended[0]
		s.ended = s.ended[1:]
		s.kept -= ring.Stored(oldest.dir)
		if err := oldest.shed(); err != nil {
			s.log.Warn("can't drop the output of an ended session", "session", oldest.id, "err", err)
		}
	}
}

// fill adds sessions that were read back.
func (s *retention) fill(list []*Session) {
	byEnd(list)
	for _, ses := range list {
		s.add(ses)
	}
}

// remove takes a session off whose files are about to go.
func (s *retention) remove(ses *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.ended, ses); i >= 0 {
		s.ended = slices.Delete(s.ended, i, i+1)
		s.kept -= ring.Stored(ses.dir)
	}
}

// byEnd sorts ended sessions, the one that ended first first.
func byEnd(list []*Session) {
	ends := make(map[*Session]time.Time, len(list))
	for _, ses := range list {
		ends[ses] = ses.end()
	}
	slices.SortStableFunc(list, func(a, b *Session) int { return ends[a].Compare(ends[b]) })
}
