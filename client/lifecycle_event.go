package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	api "github.com/space-platform/space/api/gen/http"
)

// LifecycleEvent is something that happened to a sandbox, a template or a key of the project.
type LifecycleEvent = api.Event

// EventsMissed is the type of the event that FollowEvents yields first if events after the given one, up to the event's own id, are no longer
// kept. Nobody knows when it happened: it has no time.
const EventsMissed api.EventType = "gap"

// ListEvents returns the project's lifecycle events that are kept, oldest first; of one sandbox only, if its id is given.
func (c *Client) ListEvents(ctx context.Context, sandbox string) iter.Seq2[LifecycleEvent, error] {
	return pages(func(cursor *string) (*http.Response, error) {
		return c.api.ListEvents(ctx, &api.ListEventsParams{Cursor: cursor, Sandbox: given(sandbox)})
	}, func(p api.EventPage) ([]LifecycleEvent, *string) {
		if len(p.Items) == 0 {
			return nil, nil // the cursor of an empty page only says where to go on later
		}
		return p.Items, &p.NextCursor
	})
}

// FollowEvents yields lifecycle events as they happen, after the event with the given id, or from now on if that is empty. It comes back by
// itself after a dropped connection, with no event lost or repeated.
func (c *Client) FollowEvents(ctx context.Context, sandbox, after string) iter.Seq2[LifecycleEvent, error] {
	return func(yield func(LifecycleEvent, error) bool) {
		f := &feed{client: c, sandbox: sandbox, after: after}
		if err := f.follow(ctx, func(e LifecycleEvent) bool { return yield(e, nil) }); err != nil {
			yield(LifecycleEvent{}, fmt.Errorf("follow events: %w", err))
		}
	}
}

// feed reads events over as many connections as it takes.
type feed struct {
	client  *Client
	sandbox string
	after   string
}

func (f *feed) follow(ctx context.Context, yield func(LifecycleEvent) bool) error {
	return persist(ctx, func(ctx context.Context) (bool, error) {
		before := f.after
		err := f.connect(ctx, yield)
		return f.after != before, err
	}, nil)
}

func (f *feed) connect(ctx context.Context, yield func(LifecycleEvent) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(attachSilence, cancel)
	defer silence.Stop()
	p := &api.ListEventsParams{Sandbox: given(f.sandbox), LastEventID: given(f.after)}
	resp, err := f.client.api.ListEvents(ctx, p, func(_ context.Context, r *http.Request) error {
		r.Header.Set("Accept", "text/event-stream")
		return nil
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, err := decode[json.RawMessage](resp, nil)
		return err
	}
	m := newMessages(alive{resp.Body, silence})
	defer m.close()
	for {
		raw, err := m.next()
		if m.id != "" {
			f.after = m.id
		}
		if err != nil {
			return err
		}
		e, err := lifecycleEvent(raw)
		if err != nil {
			return err
		}
		if !yield(e) {
			return errStop
		}
	}
}

// lifecycleEvent reads an event, or the reason for which the stream ends.
func lifecycleEvent(raw message) (LifecycleEvent, error) {
	var data struct {
		LifecycleEvent
		Reason string `json:"reason"`
		To     string `json:"to"`
	}
	if err := json.Unmarshal(raw.data, &data); err != nil {
		return LifecycleEvent{}, fmt.Errorf("read a %s event: %w", clip(raw.event), err)
	}
	switch {
	case raw.event == string(eventEnded) && data.Reason == "key_ended":
		return LifecycleEvent{}, &Error{Code: "unauthenticated", Detail: "the key was revoked, or has expired"}
	case raw.event == string(eventEnded):
		return LifecycleEvent{}, io.EOF
	}
	data.Type = api.EventType(raw.event)
	if data.Type == EventsMissed {
		data.Id = data.To
	}
	return data.LifecycleEvent, nil
}

// given is a parameter that may be absent.
func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
