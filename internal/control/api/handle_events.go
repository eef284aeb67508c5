package api

import (
	"context"
	"strconv"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
)

// ListEvents returns a page of the project's events, or the feed of them if the client asks for a stream.
func (h handlers) ListEvents(ctx context.Context, r gen.ListEventsRequestObject) (gen.ListEventsResponseObject, error) {
	l := h.list(ctx, "events")
	after, err := l.readNumber(r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	sandbox := ""
	if r.Params.Sandbox != nil {
		sandbox = *r.Params.Sandbox
	}
	if streaming(ctx) {
		return h.openFeed(ctx, after, r.Params.LastEventID, sandbox)
	}
	limit, err := readLimit(r.Params.Limit)
	if err != nil {
		return nil, err
	}
	f := record.EventFilter{Sandbox: sandbox, Limit: limit}
	if after != nil {
		f.After = *after
	}
	page, err := h.Events.List(ctx, caller(ctx).Project, f)
	if err != nil {
		return nil, err
	}
	cursor, err := l.writeNumber(page.Next)
	if err != nil {
		return nil, err
	}
	out := gen.ListEvents200JSONResponse{Items: make([]gen.Event, 0, len(page.Events)), NextCursor: cursor}
	if page.Missed {
		out.Missed = &page.Missed
	}
	for _, e := range page.Events {
		out.Items = append(out.Items, renderEvent(e))
	}
	return out, nil
}

func (h handlers) openFeed(ctx context.Context, after *int64, last *string, sandbox string) (gen.ListEventsResponseObject, error) {
	if last != nil {
		n, err := strconv.ParseInt(*last, 10, 64)
		if err != nil || n < 0 {
			return nil, space.FieldErrorf("Last-Event-ID", "%q is not the id of an event", space.Clip(*last))
		}
		after = &n
	}
	f, err := h.Events.Open(ctx, caller(ctx).Project, after, sandbox)
	if err != nil {
		return nil, err
	}
	return feed{ctx: ctx, Feed: f}, nil
}

func renderEvent(e record.Event) gen.Event {
	out := gen.Event{
		Id: strconv.FormatInt(e.Number, 10), Type: gen.EventType(e.Type), At: e.At.UTC(),
		Sandbox: notEmpty(e.Sandbox), Template: notEmpty(e.Template), Operation: notEmpty(e.Operation), Key: notEmpty(e.Key),
	}
	if len(e.Data) > 0 {
		out.Data = &e.Data
	}
	return out
}
