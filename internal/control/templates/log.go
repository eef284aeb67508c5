package templates

import (
	"context"
	"fmt"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// LogPage is a part of a build's log.
type LogPage struct {
	Lines    []record.LogLine
	Template record.Template // as it was before the lines were read
	Last     bool            // the build has ended, and there is nothing behind these lines
}

// Log returns up to limit lines of a template's log behind one. Where lines were dropped a line says so.
func (t *Templates) Log(ctx context.Context, project, ref string, after int64, limit int) (LogPage, error) {
	found, err := t.Get(ctx, project, ref)
	if err != nil {
		return LogPage{}, err
	}
	return t.page(ctx, found, after, limit)
}

// CheckLog refuses a position in a template's log that it never had; field is where the caller's client named it.
func (t *Templates) CheckLog(ctx context.Context, found record.Template, field string, after int64) error {
	if after == 0 {
		return nil
	}
	newest, err := t.store.NewestLogLine(ctx, found.ID)
	if err == nil && after > newest {
		err = space.FieldErrorf(field, "is behind the newest line: begin without it")
	}
	return err
}

func (t *Templates) page(ctx context.Context, found record.Template, after int64, limit int) (LogPage, error) {
	limit = min(limit, MaxPage)
	lines, before, err := t.store.TemplateLog(ctx, found.ID, after, limit)
	if err != nil {
		return LogPage{}, err
	}
	marked := markGaps(max(after, before), lines) // an earlier build's lines aren't missing
	last := found.State != record.TemplateBuilding && len(lines) < limit && len(marked) <= limit
	return LogPage{Lines: marked[:min(len(marked), limit)], Template: found, Last: last}, nil
}

// markGaps puts a line where some are missing between those behind after. It has the number of the last one that is missing.
func markGaps(after int64, lines []record.LogLine) []record.LogLine {
	out := make([]record.LogLine, 0, len(lines)+1)
	for _, l := range lines {
		if missing := l.Number - after - 1; missing > 0 {
			text := fmt.Sprintf("… lines %d to %d are no longer kept", after+1, l.Number-1)
			out = append(out, record.LogLine{Number: l.Number - 1, At: l.At, Step: l.Step, Text: text})
		}
		out = append(out, l)
		after = l.Number
	}
	return out
}

// LogReader takes what Follow reads. Each call is one page; an idle reader gets an empty one now and then, so that it can tell its client
// that it's still there.
type LogReader func(LogPage) error

// Follow reads a template's log behind a line until the build has ended, ctx is over or the reader returns an error.
func (t *Templates) Follow(ctx context.Context, project, ref string, after int64, idle time.Duration, read LogReader) error {
	found, err := t.Get(ctx, project, ref)
	if err != nil {
		return err
	}
	rung, stop := t.bell.Listen(found.ID)
	defer stop()
	told := time.Now()
	for {
		page, err := t.Log(ctx, project, found.ID, after, MaxPage)
		if err != nil {
			return err
		}
		if n := len(page.Lines); n > 0 {
			after = page.Lines[n-1].Number
		}
		if len(page.Lines) > 0 || page.Last || time.Since(told) >= idle {
			if err := read(page); err != nil || page.Last {
				return err
			}
			told = time.Now()
		}
		if len(page.Lines) == 0 {
			if err := await(ctx, rung, min(idle, pollEvery)); err != nil {
				return err
			}
		}
	}
}

// await returns when there may be news.
func await(ctx context.Context, rung <-chan struct{}, poll time.Duration) error {
	over := time.NewTimer(poll)
	defer over.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-rung:
	case <-over.C:
	}
	return nil
}
