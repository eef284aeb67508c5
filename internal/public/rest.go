package public

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// limitRest ends the connection of a client that is answered before it has sent its whole body, for example because it may not do what it asks
// for. By itself net/http reads on before it answers, for as long as the client likes.
func limitRest(next http.Handler, rest time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ReadCloser: r.Body}
		in := r.WithContext(r.Context()) // net/http knows its own body by the type
		in.Body = b
		out := &answer{ResponseWriter: w, body: b, rest: rest}
		next.ServeHTTP(out, in)
		out.begin()
	})
}

// body knows whether it was read to its end.
type body struct {
	io.ReadCloser
	whole bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.whole = b.whole || errors.Is(err, io.EOF)
	return n, err
}

// answer is an answer to a request with a body.
type answer struct {
	http.ResponseWriter
	body  *body
	rest  time.Duration
	begun bool
}

// begin is called before the header is sent.
func (a *answer) begin() {
	if a.begun {
		return
	}
	if a.begun = true; a.body.whole {
		return
	}
	a.Header().Set("Connection", "close")
	_ = http.NewResponseController(a.ResponseWriter).SetReadDeadline(time.Now().Add(a.rest)) // fails on a connection that is gone
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.begin()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
