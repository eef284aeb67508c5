package api

import (
	"context"
	"regexp"
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
	last, err := readLast(r.Params.LastEventID)
	if err != nil {
		return nil, err
	}
	sandbox := ""
	if r.Params.Sandbox != nil {
		if sandbox = *r.Params.Sandbox; sandbox == "" {
			return nil, space.FieldErrorf("sandbox", "is empty: a sandbox's id, or leave it out")
		}
	}
	if streaming(ctx) {
		if last != nil {
			after = last
		}
		return h.openFeed(ctx, after, sandbox)
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

// readLast reads Last-Event-ID, also of a request that isn't answered with a stream; absent is nil.
func readLast(s *string) (*int64, error) {
	if s == nil {
		return nil, nil
	}
	n, err := strconv.ParseInt(*s, 10, 64)
	if err != nil || !lastRE.MatchString(*s) {
		return nil, space.FieldErrorf("Last-Event-ID", "%q is not the id of an event of a stream: 1 to 19 digits", space.Clip(*s))
	}
	return &n, nil
}

var lastRE = regexp.MustCompile(`^[0-9]{1,19}$`)

func (h handlers) openFeed(ctx context.Context, after *int64, sandbox string) (gen.ListEventsResponseObject, error) {
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
