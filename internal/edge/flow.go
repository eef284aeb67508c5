package edge

import (
	"net/http"
	"sync"
	"time"
)

// flow sets the deadlines of a connection. Once it's cut, no more is read and nothing is written later than that.
type flow struct {
	*http.ResponseController
	mu       sync.Mutex
	end      time.Time // for writing; zero: it isn't cut
	released bool      // the connection is another's
}

func (f *flow) SetReadDeadline(t time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.end.IsZero() {
		return nil
	}
	return f.ResponseController.SetReadDeadline(t)
}

func (f *flow) SetWriteDeadline(t time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.end.IsZero() && f.end.Before(t) {
		t = f.end
	}
	return f.ResponseController.SetWriteDeadline(t)
}

// cut ends reading now, and writing at a time, whatever is under way.
func (f *flow) cut(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.released {
		return
	}
	f.end = at
	f.ResponseController.SetReadDeadline(time.Now())
	f.ResponseController.SetWriteDeadline(at)
}

// release ends it: the connection goes on to something else.
func (f *flow) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.released = true
}
