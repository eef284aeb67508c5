package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
)

const (
	// maxAnswer bounds the body of an answer. Firecracker's have some hundred bytes; one that was taken over may send more.
	maxAnswer = 64 << 10
	// maxHead bounds its head.
	maxHead = 16 << 10
	// maxMessage bounds the message of a refusal that goes on into errors and logs.
	maxMessage = 1 << 10
)

// Client makes calls, one at a time or several. Its methods may be called from any goroutine, and obey their context.
type Client struct {
	http  http.Client
	trace func(Exchange)
}

// Exchange is a call and its answer.
type Exchange struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body,omitempty"`
	Status int             `json:"status"`
	Answer json.RawMessage `json:"answer,omitempty"`
}

// New returns a client that connects with dial and tells trace of each call that was answered, unless it's nil.
func New(dial func(context.Context) (net.Conn, error), trace func(Exchange)) *Client {
	return &Client{trace: trace, http: http.Client{Transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableCompression: true, MaxConnsPerHost: 1, MaxResponseHeaderBytes: maxHead,
	}}}
}

// Close closes the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Fault is Firecracker's refusal.
type Fault struct {
	Status  int
	Message string
}

// Error is what Firecracker said.
func (f *Fault) Error() string {
	return fmt.Sprintf("Firecracker refuses (%d): %s", f.Status, f.Message)
}

// Unwrap is ENOSPC or EDQUOT if Firecracker had no room for what it was to write, as Rust's standard library says it; else nil. Other errors of the
// operating system are Firecracker's own: a file that it doesn't find isn't one that the host lacks.
func (f *Fault) Unwrap() error {
	for _, n := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if strings.Contains(f.Message, fmt.Sprintf("(os error %d)", int(n))) {
			return n
		}
	}
	return nil
}

// ErrBroken is wrapped when there was no answer, or half of one: Firecracker may be gone.
var ErrBroken = errors.New("the connection to Firecracker broke")

// call makes one call. in is sent as JSON unless it's nil, the answer is read into out unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	err := c.exchange(ctx, method, path, in, out)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func (c *Client) exchange(ctx context.Context, method, path string, in, out any) error {
	x := Exchange{Method: method, Path: path}
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		x.Body = b
	}
	if err := c.do(ctx, &x); err != nil {
		return err
	}
	if c.trace != nil {
		c.trace(x)
	}
	if x.Status/100 != 2 {
		return fault(x)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(x.Answer, out); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// do sends a call and fills in its answer.
func (c *Client) do(ctx context.Context, x *Exchange) error {
	r, err := http.NewRequestWithContext(ctx, x.Method, "http://localhost"+x.Path, bytes.NewReader(x.Body))
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	if x.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := c.http.Do(r)
	if err != nil {
		return broken(ctx, err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	if err != nil {
		return broken(ctx, err)
	}
	if len(b) > maxAnswer {
		return fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	x.Status = a.StatusCode
	if len(b) > 0 {
		x.Answer = b
	}
	return nil
}

// broken says why there's no answer: the caller's context, or the connection.
func broken(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

func fault(x Exchange) error {
	var said struct {
		Message string `json:"fault_message"`
	}
	if json.Unmarshal(x.Answer, &said) != nil || said.Message == "" {
		said.Message = string(x.Answer)
	}
	return &Fault{Status: x.Status, Message: said.Message[:min(len(said.Message), maxMessage)]}
}
