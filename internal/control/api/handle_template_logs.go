package api

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/templates"
)

// GetTemplateLogs returns a page of a build's log, or follows it if the client asks for a stream.
func (h handlers) GetTemplateLogs(ctx context.Context, r gen.GetTemplateLogsRequestObject) (gen.GetTemplateLogsResponseObject, error) {
	list := h.list(ctx, "log", r.Template)
	after, field, err := readLogPosition(list, r.Params.Cursor, r.Params.LastEventID)
	if err != nil {
		return nil, err
	}
	limit, err := readLimit(r.Params.Limit)
	if err != nil {
		return nil, err
	}
	project := caller(ctx).Project
	t, err := h.Templates.Get(ctx, project, r.Template)
	if err != nil {
		return nil, err
	}
	if err := h.Templates.CheckLog(ctx, t, field, after); err != nil {
		return nil, err
	}
	if streaming(ctx) {
		return logStream{ctx: ctx, templates: h.Templates, project: project, template: t.ID, after: after}, nil
	}
	page, err := h.Templates.Log(ctx, project, t.ID, after, limit)
	if err != nil {
		return nil, err
	}
	out := gen.GetTemplateLogs200JSONResponse{Items: make([]gen.LogLine, 0, len(page.Lines))}
	for _, l := range page.Lines {
		out.Items = append(out.Items, renderLogLine(l))
		after = l.Number
	}
	if !page.Last {
		next, err := list.writeNumber(after)
		if err != nil {
			return nil, err
		}
		out.NextCursor = &next
	}
	return out, nil
}

// readLogPosition reads which line was had last, and the field that says it. A client that comes back to a stream says it with Last-Event-ID.
func readLogPosition(l list, cursor, last *string) (after int64, field string, err error) {
	n, err := l.readNumber(cursor)
	if err != nil {
		return 0, "", err
	}
	line, err := readLast(last)
	switch {
	case err != nil:
		return 0, "", err
	case line != nil:
		return *line, "Last-Event-ID", nil
	case n != nil:
		return *n, "cursor", nil
	}
	return 0, "", nil
}

// logStream is an answer that goes on until the build has ended.
type logStream struct {
	ctx       context.Context // of the request
	templates *templates.Templates
	project   string
	template  string
	after     int64
}

// VisitGetTemplateLogsResponse implements the generated answer by hand.
func (l logStream) VisitGetTemplateLogsResponse(w http.ResponseWriter) error {
	s := newSSE(w)
	ended := false
	err := s.flush()
	if err == nil {
		err = l.templates.Follow(l.ctx, l.project, l.template, l.after, keepAlive, func(page templates.LogPage) error {
			ended = page.Last
			return writeLogPage(s, page)
		})
	}
	if !ended {
		l.leave(s, err)
	}
	return nil // what is begun can't become a problem document
}

// writeLogPage sends lines and, after the last one, how the build ended; an empty page is only a sign of life.
func writeLogPage(s *sse, page templates.LogPage) error {
	for _, line := range page.Lines {
		if err := s.event("log", strconv.FormatInt(line.Number, 10), renderLogLine(line)); err != nil {
			return err
		}
	}
	switch {
	case page.Last:
		if err := s.event("end", "", renderEnd(page.Template)); err != nil {
			return err
		}
		return s.flush()
	case len(page.Lines) == 0:
		return s.comment()
	default:
		return s.flush()
	}
}

// leave says why the stream ends before the build does. To a client that is gone it says nothing.
func (l logStream) leave(s *sse, err error) {
	reason := "shutting_down"
	switch {
	case s.broken:
		return
	case keyEnded(l.ctx) != nil:
		reason = "key_ended"
	case space.CodeOf(err) == space.CodeNotFound:
		reason = "deleted"
	case l.ctx.Err() == nil:
		reason = "interrupted"
		slog.Error("a build's log was interrupted", "request", requestID(l.ctx), "template", l.template, "err", err)
	}
	if s.event("ended", "", map[string]string{"reason": reason}) == nil {
		_ = s.flush() // the client is gone
	}
}

type logEnd struct {
	State string       `json:"state"`
	Error *gen.Problem `json:"error,omitempty"`
}

func renderEnd(t record.Template) logEnd {
	return logEnd{State: string(t.State), Error: problemOrNil(t.Error)}
}

func renderLogLine(l record.LogLine) gen.LogLine {
	return gen.LogLine{Number: l.Number, At: l.At.UTC(), Step: &l.Step, Text: l.Text}
}
