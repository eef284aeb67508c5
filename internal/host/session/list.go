package session

import (
	"cmp"
	"slices"
	"time"

	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/host/ring"
)

// The limits of a list.
const (
	maxListed      = 500 // sessions, the newest
	maxListedBytes = 512 // of a session's arguments together, and of its directory: what doesn't fit isn't listed
	maxListedUser  = 64
)

// Info is what is known of a session.
type Info struct {
	Session string
	PID     uint32   // in the guest; 0 when it has ended, or isn't known
	Argv    []string // as much as fits maxListedBytes
	Cwd     string
	User    string
	TTY     bool
	Started time.Time       // zero if it hasn't
	Exit    *sessionv1.Exit // nil until it ended
	EndedAt time.Time       // about when it was lost; zero if it wasn't
	Lost    error           // why it will never end: a *space.Error; nil if it may, or has
	Output  uint64          // length of the log
}

// List returns the newest sessions, the newest first; of those that haven't started nobody knows when they will.
func (s *Set) List() []Info {
	return list(s.all())
}

func list(all []*Session) []Info {
	out := make([]Info, 0, len(all))
	for _, ses := range all {
		out = append(out, ses.info())
	}
	slices.SortFunc(out, newestFirst)
	return out[:min(len(out), maxListed)]
}

func newestFirst(a, b Info) int {
	if a.Started.IsZero() != b.Started.IsZero() {
		if a.Started.IsZero() {
			return -1
		}
		return 1
	}
	return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.Session, b.Session))
}

func (s *Session) info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := Info{
		Session: s.id, Argv: s.summary.argv, Cwd: s.summary.cwd, User: s.summary.user, TTY: s.summary.tty, Exit: s.exit, PID: s.pid,
	}
	if s.started != nil {
		i.Started = s.started.AsTime()
	}
	if s.lost != nil {
		i.Lost, i.PID, i.EndedAt = s.lost, 0, s.endedAt
	}
	switch {
	case s.exit != nil:
		i.PID, i.Output = 0, s.exit.GetOffset()
	case s.ring != nil:
		i.Output = s.ring.End()
	case s.lost != nil:
		i.Output = ring.Length(s.dir)
	}
	return i
}

// summary is what remains of a spec when the session has ended.
type summary struct {
	argv []string
	cwd  string
	user string
	tty  bool
}

func summarize(spec *sessionv1.Spec) summary {
	s := summary{cwd: clipTo(spec.GetCwd(), maxListedBytes), user: clipTo(spec.GetUser(), maxListedUser), tty: spec.GetTty() != nil}
	room := maxListedBytes
	for _, a := range spec.GetArgv() {
		s.argv = append(s.argv, clipTo(a, room))
		if room -= len(a) + 1; room <= 0 {
			break
		}
	}
	return s
}
