package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"
)

const (
	maxLogBytes = 16 << 20         // a log grown beyond this becomes NAME.log.1, which replaces the one before
	rotateEvery = 20 * time.Second // how often sizes are looked at
)

// rotateAll keeps the logs of the named programs small until the context ends.
func rotateAll(ctx context.Context, dir string, names []string) {
	tick := time.NewTicker(rotateEvery)
	defer tick.Stop()
	for {
		if err := Rotate(dir, names); err != nil {
			slog.Warn("not every log was rotated", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Rotate looks at the logs of the named programs once, and makes those small that have grown too long. Each is tried.
func Rotate(dir string, names []string) error {
	var errs []error
	for _, n := range names {
		errs = append(errs, rotate(LogFile(dir, n), maxLogBytes))
	}
	return errors.Join(errs...)
}

// rotate copies a log that is too long and empties it. Its writer keeps the file open, so it can't be renamed away from under it; lines
// written between the copy and the truncation are lost, which a log may.
func rotate(path string, most int64) error {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && st.Size() <= most {
		return nil
	}
	if err != nil {
		return fmt.Errorf("rotate %s: %w", path, err)
	}
	if err := copyTail(path, path+".1", st.Size(), most); err != nil {
		return fmt.Errorf("rotate %s: %w", path, err)
	}
	if err := os.Truncate(path, 0); err != nil {
		return fmt.Errorf("rotate %s: %w", path, err)
	}
	return nil
}

// copyTail keeps at most the last most bytes: a role that wrote gigabytes in one interval doesn't double them.
func copyTail(from, to string, size, most int64) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	if _, err := src.Seek(max(0, size-most), io.SeekStart); err != nil {
		return err
	}
	dst, err := os.OpenFile(to+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	defer dst.Close()
	if _, err := io.Copy(dst, io.LimitReader(src, most)); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}
