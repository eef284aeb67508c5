package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	gen "github.com/space-platform/space/api/gen/http"
)

const (
	stdinPiece = 256 << 10 // of one request: what was not taken is sent again, so it's kept until it was
	stdinTries = 10        // of one piece
)

// SendStdin sends all of r to a session that was created with open_stdin or tty, from where its standard input is (offset: what it was
// created with, or an earlier call sent), and closes it at the end of r if that is asked for. It returns the new offset. A piece that broke off is sent again with its
// offset, so no byte is lost or doubled.
func (p *Plane) SendStdin(ctx context.Context, session string, offset int64, r io.Reader, closeAtEnd bool) (int64, error) {
	buf := make([]byte, stdinPiece)
	for {
		n, err := r.Read(buf)
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return offset, fmt.Errorf("read what to send to session %s: %w", session, err)
		}
		if n > 0 || end && closeAtEnd {
			if err := p.sendPiece(ctx, session, offset, buf[:n], end && closeAtEnd); err != nil {
				return offset, fmt.Errorf("send to session %s: %w", session, err)
			}
			offset += int64(n)
		}
		if end {
			return offset, nil
		}
	}
}

// sendPiece sends bytes until the session has them.
func (p *Plane) sendPiece(ctx context.Context, session string, offset int64, b []byte, last bool) error {
	query := url.Values{"offset": {strconv.FormatInt(offset, 10)}}
	if last {
		query.Set("close", "true")
	}
	pause := attachFirst
	for try := 1; ; try++ {
		resp, err := p.do(ctx, call{method: http.MethodPost, path: "/sessions/" + url.PathEscape(session) + "/stdin", query: query,
			header: http.Header{"Content-Type": {"application/octet-stream"}}, body: bytes.NewReader(b)})
		if err == nil {
			_, err = decode[gen.StdinReceived](resp, nil)
		}
		if err == nil || try == stdinTries || !mendable(err) {
			return err
		}
		if err := wait(ctx, jitter(pause)); err != nil {
			return err
		}
		pause = min(2*pause, attachLongest)
	}
}
