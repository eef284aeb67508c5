package e2b

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/space-platform/space/client"
)

// pipe is an edge that streams a session of many chunks, each flushed, and a facade before it.
func pipe(b *testing.B, chunks int) (edge, facade *httptest.Server, token access) {
	data := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0}, 32<<10))
	edge = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusCreated)
		event := func(format string, args ...any) { fmt.Fprintf(w, format, args...); w.(http.Flusher).Flush() }
		event("event: created\ndata: {\"session\":{\"id\":\"ses_1\"}}\n\n")
		event("id: 0\nevent: started\ndata: {\"at\":\"2026-01-01T00:00:00Z\",\"pid\":1}\n\n")
		for n := range chunks {
			event("id: %d\nevent: stdout\ndata: {\"data\":\"%s\"}\n\n", (n+1)<<15, data)
		}
		event("id: %d\nevent: exit\ndata: {\"code\":0}\n\n", chunks<<15)
	}))
	b.Cleanup(edge.Close)
	f, err := New(Config{API: edge.URL, Edge: edge.URL})
	if err != nil {
		b.Fatal(err)
	}
	facade = httptest.NewServer(f.Data())
	b.Cleanup(facade.Close)
	return edge, facade, access{"sbx_" + strings.Repeat("a", 26), secret}
}

func benchmark(b *testing.B, chunks int) {
	edge, facade, token := pipe(b, chunks)
	b.Run("edge", func(b *testing.B) {
		b.SetBytes(int64(chunks) << 15)
		p, err := client.NewPlane(edge.URL, token.sandbox, token.secret)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			for _, err := range p.Run(b.Context(), client.SessionCreate{Argv: &[]string{"true"}}) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("facade", func(b *testing.B) {
		b.SetBytes(int64(chunks) << 15)
		for b.Loop() {
			req, err := http.NewRequestWithContext(b.Context(), "POST", facade.URL+"/process.Process/Start", strings.NewReader(envelope(startCommand)))
			if err != nil {
				b.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/connect+json")
			req.Header.Set(headerToken, token.String())
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
		}
	})
}

func BenchmarkCommand(b *testing.B) { benchmark(b, 1) }
func BenchmarkStream(b *testing.B)  { benchmark(b, 1000) }
