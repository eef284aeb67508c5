package edge

import (
	"sync"

	space "github.com/space-platform/space"
)

// Limits of what is under way at once.
const (
	maxAttaches           = 1024
	maxAttachesPerSession = 8
	maxCalls              = 1024
	maxCallsPerSandbox    = 64
	maxUploads            = 32
	maxUploadsPerUpload   = 1 // two at once would only undo each other's work
)

// slots counts what is under way, in all and by owner.
type slots struct {
	what, owner string // for people: attaches of a session, calls of a sandbox
	most, share int    // in all, and of one owner

	mu  sync.Mutex // guards both counts
	all int
	own map[string]int // by owner, of those that have any
}

func newSlots(what, owner string, most, share int) *slots {
	return &slots{what: what, owner: owner, most: most, share: share, own: map[string]int{}}
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

// join admits one that its material has opened: strangers can't use up an owner's share.
func (s *slots) join(owner string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own[owner] >= s.share {
		return nil, space.Errorf(space.CodeQuotaExceeded, "the %s has %d %s already; end one of them", s.owner, s.share, s.what)
	}
	s.own[owner]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.own[owner]--; s.own[owner] == 0 {
			delete(s.own, owner)
		}
	}, nil
}
