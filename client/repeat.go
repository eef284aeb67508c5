package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	repeatMost  = 5                      // tries of one request, the first included
	repeatFirst = 100 * time.Millisecond // pause after the first try; each next one is twice as long
)

// repeater sends a request again when the platform couldn't take it, if that is safe.
type repeater struct{ next doer }

// doer is what carries requests.
type doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Do sends the request until it is answered, its context ends, or repeatMost tries have been made.
func (r repeater) Do(req *http.Request) (*http.Response, error) {
	pause := repeatFirst
	for try := 1; ; try++ {
		resp, err := r.next.Do(req)
		if try == repeatMost || !repeatable(req) || !passing(resp, err) || req.Context().Err() != nil {
			return resp, err
		}
		if resp != nil {
			resp.Body.Close()
		}
		if err := sleep(req, jitter(pause)); err != nil {
			return nil, err
		}
		pause *= 2
		if err := rewind(req); err != nil {
			return nil, err
		}
	}
}

// repeatable requests do the same once or twice.
func repeatable(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodDelete || req.Header.Get("Idempotency-Key") != ""
}

// passing failures may be over soon: nobody listened, or the control plane said that it isn't ready.
func passing(resp *http.Response, err error) bool {
	if err != nil {
		return true
	}
	return resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusServiceUnavailable
}

func rewind(req *http.Request) error {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	if req.GetBody == nil {
		return errors.New("repeat a request: its body can't be read again")
	}
	b, err := req.GetBody()
	if err != nil {
		return fmt.Errorf("repeat a request: %w", err)
	}
	req.Body = b
	return nil
}

func sleep(req *http.Request, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-req.Context().Done():
		return req.Context().Err()
	case <-t.C:
		return nil
	}
}

// jitter spreads the clients of a platform that came back: half to one and a half times d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
