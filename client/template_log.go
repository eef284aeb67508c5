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

// TemplateLogs returns the log of a template's build as far as it's there.
func (c *Client) TemplateLogs(ctx context.Context, template string) iter.Seq2[LogLine, error] {
	return pages(func(cursor *string) (*http.Response, error) {
		return c.api.GetTemplateLogs(ctx, template, &api.GetTemplateLogsParams{Cursor: cursor})
	}, func(p api.LogPage) ([]LogLine, *string) {
		if len(p.Items) == 0 {
			return nil, nil
		}
		return p.Items, p.NextCursor
	})
}

// FollowTemplateLogs yields the lines of a template's build from the first that is kept, as they come, until the build has ended; why it
// failed, if it did, is yielded as an *Error. It comes back by itself after a dropped connection, with no line lost or repeated.
func (c *Client) FollowTemplateLogs(ctx context.Context, template string) iter.Seq2[LogLine, error] {
	return func(yield func(LogLine, error) bool) {
		f := &logFollower{client: c, template: template}
		if err := f.follow(ctx, func(l LogLine) bool { return yield(l, nil) }); err != nil {
			yield(LogLine{}, fmt.Errorf("follow the build of template %s: %w", template, err))
		}
	}
}

// logFollower reads a build's log over as many connections as it takes.
type logFollower struct {
	client   *Client
	template string
	last     string // the newest line's number
	failure  error  // of the build
}

func (f *logFollower) follow(ctx context.Context, yield func(LogLine) bool) error {
	err := persist(ctx, func(ctx context.Context) (bool, error) {
		before := f.last
		err := f.connect(ctx, yield)
		return f.last != before, err
	}, nil)
	if err != nil {
		return err
	}
	return f.failure
}

func (f *logFollower) connect(ctx context.Context, yield func(LogLine) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(attachSilence, cancel)
	defer silence.Stop()
	resp, err := f.client.api.GetTemplateLogs(ctx, f.template, &api.GetTemplateLogsParams{LastEventID: given(f.last)}, func(_ context.Context, r *http.Request) error {
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
		if err != nil {
			return err
		}
		switch raw.event {
		case "log":
			var l LogLine
			if err := json.Unmarshal(raw.data, &l); err != nil {
				return fmt.Errorf("read a line of the log: %w", err)
			}
			f.last = raw.id
			if !yield(l) {
				return errStop
			}
		case "end":
			return f.end(raw.data)
		case string(eventEnded):
			return leftLog(raw.data)
		}
	}
}

// end notes how the build ended.
func (f *logFollower) end(data []byte) error {
	var e struct {
		Error *api.Problem `json:"error"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("read the log's end: %w", err)
	}
	if e.Error != nil {
		f.failure = fromProblem(*e.Error, 0)
	}
	return errStop
}

// leftLog is why a stream ended before the build did; io.EOF if coming back helps.
func leftLog(data []byte) error {
	var e struct {
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("read why the log's stream ended: %w", err)
	}
	switch e.Reason {
	case "key_ended":
		return &Error{Code: "unauthenticated", Detail: "the key was revoked, or has expired"}
	case "deleted":
		return &Error{Code: "not_found", Detail: "the template was deleted"}
	default:
		return io.EOF
	}
}
