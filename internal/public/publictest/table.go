// Package publictest sends a public listener what no client library would send: headers and bodies that trickle, lie about their length, never end
// or break off, and what isn't HTTP at all. Each is answered with a problem document where HTTP lets one be sent, or the connection is closed
// within a named time; the server goes on. What is within a body that came whole is for the tests of its readers.
package publictest

import (
	"fmt"
	"strings"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/public"
)

// Target is a listener, as its role starts it.
type Target struct {
	URL      string        // of the listener
	Post     string        // the path of an operation that takes JSON
	Bearer   string        // opens it
	JSON     string        // a body that it takes
	MaxBody  int           // bytes of the body that it takes at most
	Times    public.Times  // that it gives a client; none is below trickleEvery
	BodyTime time.Duration // for a body of JSON
	Header   int           // bytes of a header that it takes at most
}

// slack is what an answer may take beyond its named time, on a machine that is busy.
const slack = 8 * time.Second

// netHTTP is the most that net/http takes of a header beyond its limit.
const netHTTP = 4 << 10

// row is something a client does, and what must come of it.
type row struct {
	name string
	send string
	then func(*conn)   // after send; nil: the client waits
	want want          // the first answer; none: the connection is closed without one
	in   time.Duration // until the connection is closed by the server, beside slack; 0: it's the client's to close
}

// want is an answer.
type want struct {
	status int
	code   space.Code // "": not a problem of ours
	field  string
}

func (w want) String() string { return fmt.Sprintf("%d %s %s", w.status, w.code, w.field) }

var none want

// some is an answer of any kind: net/http takes who sends no more for one who has left, so the handler may have been told to give up.
var some = want{status: -1}

// problem is an answer with a code.
func problem(c space.Code, field string) want { return want{c.HTTPStatus(), c, field} }

// plain is an answer of net/http's own.
func plain(status int) want { return want{status: status} }

func (t Target) head(headers ...string) string {
	return "POST " + t.Post + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + t.Bearer + "\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n"
}

// stranger is a request whose material opens nothing.
func (t Target) stranger(headers ...string) string {
	return strings.Replace(t.head(headers...), "Bearer "+t.Bearer, "Bearer nothing", 1)
}

func length(n int) string { return fmt.Sprintf("Content-Length: %d", n) }

const (
	chunked = "Transfer-Encoding: chunked"
	get     = "GET /healthz HTTP/1.1\r\nHost: x\r\n"
)

// slow are clients that take their time. Each trickles a byte at a time, without an end.
func (t Target) slow() []row {
	return []row{
		{name: "it says nothing", in: t.Times.Header},
		{name: "half a header", send: get, in: t.Times.Header},
		{name: "a header that trickles", send: get + "X: ", then: trickle("a"), in: t.Times.Header},
		{name: "headers that trickle", send: get, then: trickle("X: a\r\n"), in: t.Times.Header},
		{name: "a second header that trickles", send: get + "\r\n" + get, then: trickle("X: a\r\n"), want: plain(200), in: t.Times.Header},
		{name: "a body that doesn't come", send: t.head(length(100)), want: problem(space.CodeTimeout, ""), in: t.BodyTime},
		{name: "a body that trickles", send: t.head(length(t.MaxBody)), then: trickle(" "), want: problem(space.CodeTimeout, ""), in: t.BodyTime},
		{name: "chunks that trickle", send: t.head(chunked), then: trickle("1\r\n \r\n"), want: problem(space.CodeTimeout, ""), in: t.BodyTime},
		{name: "a refused body that doesn't come", send: t.stranger(length(100)), want: problem(space.CodeUnauthenticated, ""), in: t.Times.Rest},
		{name: "a refused body that trickles", send: t.stranger(length(t.MaxBody)), then: trickle(" "), want: problem(space.CodeUnauthenticated, ""), in: t.Times.Rest},
		{name: "refused chunks that trickle", send: t.stranger(chunked), then: trickle("1\r\n \r\n"), want: problem(space.CodeUnauthenticated, ""), in: t.Times.Rest},
		{name: "a body that is too large and doesn't come", send: t.head(length(t.MaxBody + 1)), want: problem(space.CodeTooLarge, ""), in: t.Times.Rest},
		{name: "a body for nothing", send: "POST /nothing HTTP/1.1\r\nHost: x\r\n" + length(9) + "\r\n\r\n", want: problem(space.CodeNotFound, ""), in: t.Times.Rest},
		{name: "a body for another method", send: strings.Replace(t.head(length(9)), "POST", "TRACE", 1), want: problem(space.CodeMethod, ""), in: t.Times.Rest},
	}
}

// broken are clients that leave, wholly or by half.
func (t Target) broken() []row {
	return []row{
		{name: "half closed after a request", send: get + "Connection: close\r\n\r\n", then: (*conn).closeWrite, want: some, in: t.Times.Rest},
		{name: "half closed within a header", send: get, then: (*conn).closeWrite, want: plain(400), in: t.Times.Rest},
		{name: "half closed at once", then: (*conn).closeWrite, in: t.Times.Header},
		{name: "half closed within a body", send: t.head(length(100)) + "{", then: (*conn).closeWrite, want: problem(space.CodeInvalid, ""), in: t.Times.Rest},
		{name: "half closed within a chunk", send: t.head(chunked) + "10\r\n{", then: (*conn).closeWrite, want: problem(space.CodeInvalid, ""), in: t.Times.Rest},
		{name: "half closed between chunks", send: t.head(chunked) + "1\r\n{\r\n", then: (*conn).closeWrite, want: problem(space.CodeInvalid, ""), in: t.Times.Rest},
		{name: "closed within a body", send: t.head(length(100)) + "{", then: (*conn).close},
		{name: "reset within a body", send: t.head(length(100)) + "{", then: (*conn).reset},
		{name: "reset before the answer", send: t.stranger(length(len(t.JSON))) + t.JSON, then: (*conn).reset},
	}
}

// lying are bodies that aren't what their headers say.
func (t Target) lying() []row {
	return []row{
		{name: "shorter than it is", send: t.head(length(len(t.JSON)-1)) + t.JSON, want: problem(space.CodeInvalid, "")},
		{name: "too large by its length", send: t.head(length(t.MaxBody+1)) + t.JSON, then: (*conn).closeWrite, want: problem(space.CodeTooLarge, ""), in: t.Times.Rest},
		{name: "a length beyond memory", send: t.head("Content-Length: 9223372036854775807") + t.JSON, then: (*conn).closeWrite, want: problem(space.CodeTooLarge, ""), in: t.Times.Rest},
		{name: "a body without an end", send: t.head(chunked), then: flood("4000\r\n" + strings.Repeat(" ", 0x4000) + "\r\n"), want: problem(space.CodeTooLarge, ""), in: t.Times.Rest},
		{name: "a refused body without an end", send: t.stranger(chunked), then: flood("4000\r\n" + strings.Repeat(" ", 0x4000) + "\r\n"), want: problem(space.CodeUnauthenticated, ""), in: t.Times.Rest},
		{name: "chunks' extensions without an end", send: t.head(chunked) + "1;", then: flood(strings.Repeat("a", 0x4000)), want: problem(space.CodeInvalid, ""), in: t.Times.Rest},
		{name: "trailers without an end", send: t.head(chunked) + "0\r\n", then: flood("X: " + strings.Repeat("a", 0x4000) + "\r\n"), want: problem(space.CodeInvalid, ""), in: t.Times.Rest},
		{name: "chunks of one byte", send: t.head(chunked), then: flood(strings.Repeat("1\r\n \r\n", 1000)), want: problem(space.CodeTooLarge, ""), in: t.Times.Rest},
		{name: "more than was asked to wait for", send: t.head("Expect: 100-continue", length(t.MaxBody+1)), want: problem(space.CodeTooLarge, ""), in: t.Times.Rest},
		{name: "an unknown expectation", send: t.head("Expect: much", length(len(t.JSON))) + t.JSON, want: plain(417), in: t.Times.Rest},
	}
}

// headers are too large, too many, or none.
func (t Target) headers() []row {
	over := t.Header + netHTTP
	return []row{
		{name: "the largest header", send: get + "X: " + strings.Repeat("a", t.Header-1000) + "\r\n\r\n", want: plain(200)},
		{name: "a header that is too large", send: get + "X: " + strings.Repeat("a", over) + "\r\n\r\n", want: plain(431), in: t.Times.Rest},
		{name: "too many headers", send: get + strings.Repeat("X: a\r\n", over/6+1) + "\r\n", want: plain(431), in: t.Times.Rest},
		{name: "a path that is too large", send: "GET /" + strings.Repeat("a", over) + " HTTP/1.1\r\nHost: x\r\n\r\n", want: plain(431), in: t.Times.Rest},
		{name: "headers without an end", send: get, then: flood("X: " + strings.Repeat("a", 1000) + "\r\n"), want: plain(431), in: t.Times.Rest},
		{name: "a NUL in a header", send: get + "X: a\x00b\r\n\r\n", want: plain(400), in: t.Times.Rest},
		{name: "a blank before a colon", send: get + "X : a\r\n\r\n", want: plain(400), in: t.Times.Rest},
		{name: "no host", send: "GET /healthz HTTP/1.1\r\n\r\n", want: plain(400), in: t.Times.Rest},
		{name: "two hosts", send: get + "Host: y\r\n\r\n", want: plain(400), in: t.Times.Rest},
		{name: "two materials", send: t.head("Authorization: Bearer "+t.Bearer, length(len(t.JSON))) + t.JSON, want: problem(space.CodeUnauthenticated, ""), in: t.Times.Rest},
	}
}

// lines are first lines that aren't what is served.
func (t Target) lines() []row {
	closes := "\r\nHost: x\r\nConnection: close\r\n\r\n"
	out := []row{
		{name: "nonsense", send: "nonsense\r\n\r\n", want: plain(400), in: t.Times.Rest},
		{name: "an old version", send: "GET /healthz\r\n\r\n", want: plain(400), in: t.Times.Rest},
		{name: "an unknown version", send: "GET /healthz HTTP/3.0" + closes, want: plain(505), in: t.Times.Rest},
		{name: "TLS", send: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 100) + "\r\n\r\n", want: plain(400), in: t.Times.Rest},
		{name: "HTTP/2", send: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", want: problem(space.CodeNotFound, ""), in: t.Times.Rest},
		{name: "a NUL in a path", send: "GET /healthz\x00 HTTP/1.1" + closes, want: plain(400), in: t.Times.Rest},
		{name: "half an escape", send: "GET /v1/%zz HTTP/1.1" + closes, want: plain(400), in: t.Times.Rest},
	}
	for name, target := range map[string]string{
		"an escaped NUL": "GET /healthz%00", "an escaped slash": "GET /v1%2f..%2fhealthz", "a path out": "GET /v1/../healthz", "an escaped path out": "GET /v1/%2e%2e/healthz",
		"two slashes": "GET //healthz", "an overlong slash": "GET /v1%c0%afhealthz", "half a character": "GET /healthz%ff", "another case": "GET /HEALTHZ", "a blank": "GET /healthz%20",
		"a parameter of the path": "GET /healthz;v=1", "everything": "OPTIONS *", "a back slash": "GET /v1\\..\\healthz", "a wide slash": "GET /v1%ef%bc%8fhealthz",
	} {
		out = append(out, row{name: name, send: target + " HTTP/1.1" + closes, want: problem(space.CodeNotFound, ""), in: t.Times.Rest})
	}
	return append(out,
		row{name: "a proxy's request", send: "CONNECT other.example:443 HTTP/1.1" + closes, want: problem(space.CodeNotFound, ""), in: t.Times.Rest},
		row{name: "a method that isn't any", send: "FROB " + t.Post + " HTTP/1.1" + closes, want: problem(space.CodeMethod, ""), in: t.Times.Rest},
		row{name: "a query that can't be read", send: strings.Replace(t.head(length(len(t.JSON)))+t.JSON, t.Post, t.Post+"?%zz", 1), want: problem(space.CodeInvalid, "query")},
		row{name: "a parameter that isn't any", send: strings.Replace(t.head(length(len(t.JSON)))+t.JSON, t.Post, t.Post+"?x=1", 1), want: problem(space.CodeInvalid, "x")},
		row{name: "another media type", send: t.head("Content-Type: text/plain", length(len(t.JSON))) + t.JSON, want: problem(space.CodeMediaType, "Content-Type")},
	)
}
