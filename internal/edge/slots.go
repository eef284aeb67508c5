package edge

import (
	"sync"

	space "github.com/space-platform/space"
)

// Limits of what is under way at once.
const (
	maxAttaches           = 2048
	maxAttachesPerProject = 1024
	maxAttachesPerSession = 8
	maxCalls              = 1024
	maxCallsPerProject    = 512
	maxCallsPerSandbox    = 64
	maxUploads            = 32
	maxUploadsPerProject  = 16
	maxUploadsPerUpload   = 1 // two at once would only undo each other's work
)

// slots counts what is under way, in all, by project and by owner.
type slots struct {
	what, owner string // for people: attaches of a session, calls of a sandbox
	most        int    // in all
	perProject  int    // of one project, so that it leaves room for others
	share       int    // of one owner

	mu  sync.Mutex // guards both counts
	all int
	own map[string]int // by project and by owner, of those that have any; both are ids
}

func newSlots(what, owner string, most, perProject, share int) *slots {
	return &slots{what: what, owner: owner, most: most, perProject: perProject, share: share, own: map[string]int{}}
}

// take admits one more, whoever asks; the returned function ends it.
func (s *slots) take() (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= s.most {
		return nil, space.Errorf(space.CodeUnavailable, "the edge serves %d %s already; try again", s.most, s.what)
	}
	s.all++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
	}, nil
}

// join admits one that its material has opened: strangers can't use up an owner's share, nor a project's.
func (s *slots) join(owner, project string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.own[owner] >= s.share:
		return nil, space.Errorf(space.CodeQuotaExceeded, "the %s has %d %s already; end one of them", s.owner, s.share, s.what)
	case s.own[project] >= s.perProject:
		return nil, space.Errorf(space.CodeQuotaExceeded, "the project has %d %s already; end one of them", s.perProject, s.what)
	}
	s.own[owner]++
	s.own[project]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, who := range []string{owner, project} {
			if s.own[who]--; s.own[who] == 0 {
				delete(s.own, who)
			}
		}
	}, nil
}
