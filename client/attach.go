package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

const (
	attachMost     = 10 // attempts in a row that bring no event
	attachFirst    = 100 * time.Millisecond
	attachLongest  = 5 * time.Second  // pauses between attempts double up to this
	attachSilence  = 45 * time.Second // a connection without a byte for so long is dead: servers send a comment every 15 s
	attachErrorMax = 64 << 10         // of a refusal's body
	attachRest     = time.Second      // for a stream to end after its last event
)

// AttachOption changes how an attach goes.
type AttachOption func(*follower)

// FromOffset leaves out the first bytes of a session's output, stdout and stderr together: an Event's Offset is where another attach goes on
// after it. Beyond 0 the started event is left out, too. An offset beyond the end is refused.
func FromOffset(offset int64) AttachOption {
	return func(f *follower) { f.log.at, f.log.started = offset, offset > 0 }
}

// WhenSuspended has tell called each time that the events stop because the sandbox was suspended. They go on when it has been woken; Attach waits for that
// and doesn't wake it.
func WhenSuspended(tell func()) AttachOption {
	return func(f *follower) { f.suspended = tell }
}

// WhenJoined has tell called once, when a connection was let in: the sandbox runs, or stands still with the session in it, and what follows is the session's.
func WhenJoined(tell func()) AttachOption {
	return func(f *follower) { f.joined = tell }
}

// Encoded leaves output in base64, as it comes: Event.Encoded has it, not Data. It's for who passes it on so.
func Encoded() AttachOption {
	return func(f *follower) { f.encoded = true }
}

// Attach starts a session, or joins it, and returns its events from the beginning until it has ended: the last one is an exit or a lost.
// A dropped connection is taken up again where it was, with no byte lost or repeated, and a token that is no longer valid is replaced; what
// can't be mended is yielded as an error, which ends the events. Leaving the loop detaches and harms nothing.
//
// A sandbox that sleeps is woken by the call, if its auto_wake says so. One that is suspended while the session goes on stays suspended: the events wait for
// whoever wakes it, as long as ctx allows, and then go on.
func (c *Client) Attach(ctx context.Context, s Session, a Attachment, options ...AttachOption) iter.Seq2[Event, error] {
	renew := func(ctx context.Context) error {
		another, err := c.CreateAttachment(ctx, s.Sandbox, s.Id)
		if err == nil {
			a = another
		}
		return err
	}
	to := func(context.Context, string) (address, token string, err error) { return a.Url, a.Token, nil }
	return follower{http: c.http, session: s.Id, to: to, renew: renew}.with(options).events(ctx)
}

// Attach does what Client.Attach does, with the token of the sandbox. One that was given to NewPlane isn't replaced.
func (p *Plane) Attach(ctx context.Context, session string, options ...AttachOption) iter.Seq2[Event, error] {
	return follower{http: p.http, session: session, to: p.follow, renew: p.pass.renewal()}.with(options).events(ctx)
}

// Run creates a session and starts it, in one request. Its events are those of Attach, after one of the type EventCreated.
func (p *Plane) Run(ctx context.Context, in SessionCreate, options ...AttachOption) iter.Seq2[Event, error] {
	order, err := json.Marshal(in)
	if err != nil {
		return func(yield func(Event, error) bool) {
			yield(Event{}, fmt.Errorf("create session in %s: %w", p.sandbox, err))
		}
	}
	return follower{http: p.http, order: order, key: *idempotencyKey(), to: p.follow, renew: p.pass.renewal()}.with(options).events(ctx)
}

// follow is where a session's events are, or where one is created.
func (p *Plane) follow(ctx context.Context, session string) (address, token string, err error) {
	token, err = p.pass.show(ctx)
	if session == "" {
		return p.address + "/sandboxes/" + url.PathEscape(p.sandbox) + "/sessions", token, err
	}
	return p.address + "/sessions/" + url.PathEscape(session) + "/attach", token, err
}

// follower reads one session over as many connections as it takes.
type follower struct {
	http    *http.Client
	session string // "" of one that is to be created
	order   []byte // creates it
	key     string // of that request, however often it's sent
	to      func(ctx context.Context, session string) (address, token string, err error)
	renew   func(context.Context) error // replaces the token; nil: it can't be
	log     position
	encoded bool // output stays in base64

	joined    func() // told when a connection is let in for the first time; nil: nobody is
	suspended func() // told when the sandbox is; nil: nobody is
	entered   bool   // a connection was let in: those that follow are nobody's wish, and wake nothing
	waiting   bool   // for a suspended sandbox
}

func (f follower) with(options []AttachOption) follower {
	for _, o := range options {
		o(&f)
	}
	return f
}

// events are the session's, from its position on.
func (f follower) events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := f // each reading is its own
		if err := f.follow(ctx, func(e Event) bool { return yield(e, nil) }); err != nil {
			yield(Event{}, fmt.Errorf("%s: %w", f.doing(), err))
		}
	}
}

func (f *follower) doing() string {
	if f.session == "" {
		return "create a session"
	}
	return "attach to session " + f.session
}

// How a connection ends that didn't fail.
var (
	errStop      = errors.New("stop")                     // all is done: the session has ended, or the reader has left
	errLast      = errors.New("the last event")           // the session has ended
	errSuspended = errors.New("the sandbox is suspended") // the session goes on when it's woken
)

// reasonSuspended is why a connection ends with errSuspended.
const reasonSuspended = "suspended"

func (f *follower) follow(ctx context.Context, yield func(Event) bool) error {
	return persist(ctx, func(ctx context.Context) (bool, error) {
		before, created := f.log, f.session != ""
		err := f.connect(ctx, yield)
		return f.log != before || created != (f.session != ""), err
	}, f.renew)
}

// connect reads one connection to its end.
func (f *follower) connect(ctx context.Context, yield func(Event) bool) error {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx)) // see finish
	defer context.AfterFunc(ctx, cancel)()
	silence := time.AfterFunc(attachSilence, cancel)
	defer silence.Stop()
	body, err := f.open(inner)
	if err != nil {
		cancel()
		return err
	}
	err = f.read(alive{body, silence}, yield)
	if errors.Is(err, errLast) {
		go finish(body, cancel)
		return errStop
	}
	cancel()
	body.Close()
	return err
}

// finish reads what is left after a session's last event, which is the stream's end, so that the connection can be used again: a command costs none of its
// own then. Nobody waits for it, and it has attachRest.
func finish(body io.ReadCloser, cancel context.CancelFunc) {
	defer cancel()
	defer body.Close()
	defer time.AfterFunc(attachRest, cancel).Stop()
	io.CopyN(io.Discard, body, attachErrorMax)
}

// read reads events until the last one (errLast), or until there's another reason to end.
func (f *follower) read(stream io.Reader, yield func(Event) bool) error {
	m := newMessages(stream)
	defer m.close()
	for {
		raw, err := m.next()
		if err != nil {
			return err
		}
		e, known, err := understand(raw, f.encoded)
		if err != nil {
			return err
		}
		if e.Type == eventEnded && e.reason == reasonSuspended {
			return f.wait()
		}
		if e.Type == eventEnded {
			return io.EOF
		}
		if !known {
			continue
		}
		if e.Type == EventCreated {
			f.session = e.Created.Session.Id
		} else {
			f.entered = true
		}
		e, fresh, err := f.log.advance(e)
		if err != nil {
			return err
		}
		if fresh {
			f.waiting = false
		}
		left := fresh && !yield(e)
		if e.Type == EventExit || e.Type == EventLost {
			return errLast
		}
		if left {
			return errStop
		}
	}
}

// wait says once that the sandbox is suspended.
func (f *follower) wait() error {
	if !f.waiting && f.suspended != nil {
		f.suspended()
	}
	f.waiting, f.entered = true, true
	return errSuspended
}

// open sends the request and returns the stream.
func (f *follower) open(ctx context.Context) (io.ReadCloser, error) {
	req, err := f.request(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		defer resp.Body.Close()
		b, err := io.ReadAll(io.LimitReader(resp.Body, attachErrorMax))
		if err != nil {
			return nil, err
		}
		err = refusal(resp, b)
		if f.waiting && isTimeout(err) { // it's being restored
			return nil, errSuspended
		}
		return nil, err
	}
	if f.joined != nil && f.session != "" {
		f.joined()
		f.joined = nil
	}
	f.entered = f.entered || f.session != "" // a session that has just been created isn't entered yet: the sandbox may still be about to wake
	return resp.Body, nil
}

// request attaches to the session, or creates it.
func (f *follower) request(ctx context.Context) (*http.Request, error) {
	address, token, err := f.to(ctx, f.session)
	if err != nil {
		return nil, err
	}
	method, order := http.MethodGet, io.Reader(nil)
	if f.session == "" {
		method, order = http.MethodPost, bytes.NewReader(f.order)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, order)
	if err != nil {
		return nil, &Error{Code: "unexpected_answer", Detail: err.Error()}
	}
	if f.session != "" && f.entered {
		req.URL.RawQuery = letSleep.Encode()
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "text/event-stream")
	switch {
	case f.session == "":
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", f.key)
	case f.log.started:
		req.Header.Set("Last-Event-ID", strconv.FormatInt(f.log.at, 10))
	}
	return req, nil
}

// letSleep asks that a sandbox which sleeps isn't woken.
var letSleep = url.Values{"wake": {"false"}}

// mendable tells whether coming back may help: after a transport's failure always, after a refusal only if it was of the passing kind. A node has room when somebody
// makes some.
func mendable(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return !errors.Is(err, errTooLong)
	}
	return slices.Contains([]string{"unavailable", "timeout", "route_stale"}, e.Code) || e.Status >= 500 && e.Code != "capacity_exhausted"
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// alive puts off a connection's end with each byte that arrives.
type alive struct {
	r     io.Reader
	timer *time.Timer
}

func (a alive) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if n > 0 {
		a.timer.Reset(attachSilence)
	}
	return n, err
}
