package peer

import (
	"context"
	"io"
	"net/http"
)

// resetting resets a request as soon as its context ends. By itself HTTP/2's client doesn't notice that while it waits for more of the request's
// body, which in a call with streams both ways may never come: the answer's reader would wait on, and so would the server. The transport is
// embedded whole, so that http.Client finds its CloseIdleConnections: a server waits a second for connections that nobody closes.
type resetting struct{ *http.Transport }

// RoundTrip makes the request; closing its answer's body is what resets it.
func (t resetting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body := resp.Body
	stop := context.AfterFunc(r.Context(), func() { body.Close() })
	resp.Body = &watchedBody{ReadCloser: body, stop: stop}
	return resp, nil
}

// watchedBody is a body that is closed when a context ends.
type watchedBody struct {
	io.ReadCloser
	stop func() bool
}

// Close closes the body and forgets the context.
func (b *watchedBody) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}
