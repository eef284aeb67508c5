package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/space-platform/space/internal/control/events"
)

// feed is an answer that goes on: the project's events as they come.
type feed struct {
	*events.Feed
	ctx context.Context // of the request
}

// VisitListEventsResponse implements the generated answer by hand: it writes until the client goes, the server stops or the key ends.
func (f feed) VisitListEventsResponse(w http.ResponseWriter) error {
	defer f.Close()
	s := newSSE(w)
	err := f.greet(s)
	for err == nil && f.ctx.Err() == nil {
		err = f.pass(s)
	}
	f.leave(s, err)
	return nil // what is begun can't become a problem document
}

// greet tells the client where it begins, so that it can come back even if nothing happens.
func (f feed) greet(s *sse) error {
	if to := f.Missed(); to > 0 {
		if err := s.event("gap", strconv.FormatInt(to, 10), map[string]string{"to": strconv.FormatInt(to, 10)}); err != nil {
			return err
		}
		return s.flush()
	}
	return s.position(strconv.FormatInt(f.After(), 10))
}

// pass writes what happens next, or a comment if nothing does for a while.
func (f feed) pass(s *sse) error {
	next, err := f.Next(f.ctx, keepAlive)
	if err != nil || f.ctx.Err() != nil {
		return err
	}
	if len(next) == 0 {
		return s.comment()
	}
	for _, e := range next {
		if err := s.event(string(e.Type), strconv.FormatInt(e.Number, 10), renderEvent(e)); err != nil {
			return err
		}
	}
	return s.flush()
}

// leave says why the feed ends. To a client that is gone it says nothing.
func (f feed) leave(s *sse, err error) {
	reason := "shutting_down"
	switch {
	case s.broken:
		return
	case keyEnded(f.ctx) != nil:
		reason = "key_ended"
	case err != nil:
		reason = "interrupted"
		slog.Error("a feed of events was interrupted", "request", requestID(f.ctx), "err", err)
	}
	if s.event("ended", "", map[string]string{"reason": reason}) == nil {
		_ = s.flush() // the client is gone
	}
}

// marshal never fails: what is written is ours.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
