package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path"
	"slices"
	"time"
)

const (
	repeatMost    = 5                      // tries of one request that waits for nothing, the first included
	repeatFirst   = 100 * time.Millisecond // pause after the first try; each next one is twice as long
	repeatLongest = 2 * time.Second        // up to this
	// rideMost is for how long a request is sent again that waits for an operation: a control plane is restarted within it, and operations go on meanwhile.
	rideMost = time.Minute
)

// repeater sends a request again when the platform couldn't take it, if that is safe.
type repeater struct{ next doer }

// doer is what carries requests.
type doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Do sends the request until it is answered, its context ends, or all tries have been made: repeatMost, or those of rideMost for a request that waits for an operation
// which may be under way.
func (r repeater) Do(req *http.Request) (*http.Response, error) {
	pause, began := repeatFirst, time.Now()
	rides := req.Method == http.MethodGet && awaits(req) // the operation is known
	for refused, try := 0, 1; ; try++ {
		resp, err := r.next.Do(req)
		rides = rides || awaits(req) && broke(err)
		if err == nil && req.Method != http.MethodGet {
			refused++ // it was heard: another answer comes soon or not at all
		}
		over := try == repeatMost
		if rides {
			over = time.Since(began) >= rideMost || refused == repeatMost
		}
		if over || !repeatable(req) || !passing(req, resp, err) || req.Context().Err() != nil {
			return resp, err
		}
		if resp != nil {
			resp.Body.Close()
		}
		if err := sleep(req, jitter(pause)); err != nil {
			return nil, err
		}
		pause = min(2*pause, repeatLongest)
		if err := rewind(req); err != nil {
			return nil, err
		}
	}
}

// awaits tells whether a request waits for an operation's end.
func awaits(req *http.Request) bool { return req.URL.Query().Has("wait") }

// broke tells whether a request may have been taken and its answer was lost; not if nobody was there to take it.
func broke(err error) bool {
	var op *net.OpError
	return err != nil && !(errors.As(err, &op) && op.Op == "dial")
}

// repeatable requests do the same once or twice.
func repeatable(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodDelete || req.Header.Get("Idempotency-Key") != "" || repeatableVerb(req)
}

// repeatableVerbs answer with the operation that is under way, or with the one that did it, if that's what a sandbox is already. Not so a rollback, which has an Idempotency-Key: what came
// after the first one would be given up.
var repeatableVerbs = []string{"pause", "resume", "suspend", "restore", "wake", "stop", "start"}

func repeatableVerb(req *http.Request) bool {
	of, verb := path.Split(req.URL.Path)
	return path.Base(path.Dir(path.Clean(of))) == "sandboxes" && slices.Contains(repeatableVerbs, verb)
}

// passing failures may be over soon: nobody listened, or the control plane said that it isn't ready.
func passing(req *http.Request, resp *http.Response, err error) bool {
	switch {
	case err != nil, resp.StatusCode == http.StatusBadGateway:
		return true
	case resp.StatusCode != http.StatusServiceUnavailable:
		return false
	default:
		return makes(req) || !isFull(resp)
	}
}

// makes tells whether a request makes something new on a node. Somebody may just have made room for it, which the node tells within a second or two. Whatever else there's no
// room for, a wake say, was tried: that would begin anew each time.
func makes(req *http.Request) bool {
	return req.Method == http.MethodPost && slices.Contains([]string{"sandboxes", "fork", "snapshots"}, path.Base(req.URL.Path))
}

// isFull reads whether an answer says that there's no room. The answer can still be read.
func isFull(resp *http.Response) bool {
	b, err := io.ReadAll(io.LimitReader(resp.Body, attachErrorMax))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(b), resp.Body), resp.Body}
	return err == nil && refusal(resp, b).Code == "capacity_exhausted"
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
