package manager

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
)

// TestAnOutageIsLoggedOnce has the host fail for a while, work, and fail again: the log has two lines. It isn't parallel: it takes the process's logger.
func TestAnOutageIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	usual := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(usual)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m, calls := &Manager{timing: usualTiming}, 0
		m.keepTrying(ctx, "tpl_x", func(context.Context) error {
			switch calls++; {
			case calls == 10:
				cancel()
			case calls != 5:
				return errors.New("the host is away")
			}
			return nil
		})
	})
	if n := strings.Count(log.String(), "the host is away"); n != 2 {
		t.Errorf("%d lines, want 2: %s", n, &log)
	}
}
