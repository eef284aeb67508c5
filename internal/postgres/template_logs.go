package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

const (
	// maxLogLines and maxLogBytes bound what is kept of a template's log; the oldest lines go.
	maxLogLines = 20_000
	maxLogBytes = 8 << 20
	// keepLogLines and keepLogBytes are what is kept when a limit is passed: less, so that not each line cuts.
	keepLogLines = maxLogLines * 7 / 8
	keepLogBytes = maxLogBytes * 7 / 8
)

// appendLog writes new lines of a template's log. Another build's take the place of those before.
func appendLog(ctx context.Context, q *db.Queries, l record.LogSeen) error {
	head, err := q.LockTemplateLog(ctx, l.Template)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && len(l.Lines) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if l.Anew {
		head.Before += head.Newest
		if err := q.DropLogLines(ctx, db.DropLogLinesParams{Template: l.Template, Upto: head.Before}); err != nil {
			return err
		}
	}
	if err := q.InsertLogLines(ctx, logColumns(l, head.Before)); err != nil {
		return err
	}
	last := l.Lines[len(l.Lines)-1]
	head.Newest, head.NewestAt = last.Number, last.At
	return cutLog(ctx, q, l.Template, head)
}

func logColumns(l record.LogSeen, before int64) db.InsertLogLinesParams {
	out := db.InsertLogLinesParams{Template: l.Template}
	for _, line := range l.Lines {
		out.Numbers = append(out.Numbers, before+line.Number)
		out.Ats = append(out.Ats, line.At)
		out.Steps = append(out.Steps, int32(line.Step))
		out.Lines = append(out.Lines, line.Text)
	}
	return out
}

// cutLog drops the oldest lines of a log that is over a limit, and writes its head.
func cutLog(ctx context.Context, q *db.Queries, template string, head db.LockTemplateLogRow) error {
	size, err := q.LogSize(ctx, template)
	if err != nil {
		return err
	}
	if size.Lines > maxLogLines || size.Bytes > maxLogBytes {
		cut, err := q.LogCut(ctx, db.LogCutParams{Template: template, MaxLines: keepLogLines, MaxBytes: keepLogBytes})
		if err != nil {
			return err
		}
		if err := q.DropLogLines(ctx, db.DropLogLinesParams{Template: template, Upto: cut}); err != nil {
			return err
		}
	}
	return q.SetTemplateLog(ctx, db.SetTemplateLogParams{Template: template, Before: head.Before, Newest: head.Newest, NewestAt: head.NewestAt})
}

// NewestLogLine returns the number of the last line that a template's log ever had, 0 without one.
func (s *Store) NewestLogLine(ctx context.Context, template string) (newest int64, err error) {
	err = s.read(ctx, "read the head of template "+template+"'s log", func(ctx context.Context, q *db.Queries) error {
		newest, err = q.NewestLogLine(ctx, template)
		return err
	})
	return newest, err
}

// TemplateLog returns up to limit lines of a template's log behind one, oldest first, and the number of the last line before its newest build.
// Lines that were dropped are missing in between.
func (s *Store) TemplateLog(ctx context.Context, template string, after int64, limit int) (out []record.LogLine, before int64, err error) {
	err = s.read(ctx, "read the log of template "+template, func(ctx context.Context, q *db.Queries) error {
		rows, err := q.LogLines(ctx, db.LogLinesParams{Template: template, After: after, MaxRows: int32(limit)})
		for _, r := range rows {
			before = r.Before
			out = append(out, record.LogLine{Number: r.Number, At: r.At.In(time.UTC), Step: int(r.Step), Text: r.Line})
		}
		return err
	})
	return out, before, err
}
