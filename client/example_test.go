package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/space-platform/space/client"
)

// Run a command in a fresh sandbox and show its output as it comes. The example's platform is played by a small server.
func Example() {
	platform := httptest.NewServer(play())
	defer platform.Close()
	ctx := context.Background()

	c, err := client.New(platform.URL, "space_…")
	if err != nil {
		log.Fatal(err)
	}
	sandbox, err := c.CreateSandbox(ctx, client.SandboxCreate{Template: "base"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.DeleteSandbox(context.WithoutCancel(ctx), sandbox.Id)

	s, err := c.CreateSession(ctx, sandbox.Id, client.SessionCreate{Argv: &[]string{"python3", "-c", "print(6*7)"}})
	if err != nil {
		log.Fatal(err)
	}
	for event, err := range c.Attach(ctx, s.Session, s.Attachment) {
		if err != nil {
			log.Fatal(err)
		}
		switch event.Type {
		case client.EventStdout:
			os.Stdout.Write(event.Data)
		case client.EventExit:
			fmt.Println("exit code", event.Exit.Code)
		}
	}
	// Output:
	// 42
	// exit code 0
}

// play answers as a platform would.
func play() http.Handler {
	const sandbox = `{"id":"sbx_1","template":"base","state":"running","execution":{"id":"exe_1","epoch":1,"node":"n"},"vcpus":1,"memory_mb":512,
		"disk_mb":2048,"metadata":{},"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"}`
	answer := func(status int, format string, args ...any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintf(w, format, args...)
		}
	}
	operation := `{"id":"op_1","kind":%q,"status":"succeeded","created_at":"2026-01-02T03:04:05Z","sandbox":` + sandbox + `}`
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/sandboxes", answer(201, operation, "create_sandbox"))
	mux.HandleFunc("DELETE /v1/sandboxes/sbx_1", answer(200, operation, "delete_sandbox"))
	mux.HandleFunc("POST /v1/sandboxes/sbx_1/sessions", func(w http.ResponseWriter, r *http.Request) {
		answer(201, `{"session":{"id":"ses_1","sandbox":"sbx_1","state":"created","created_at":"2026-01-02T03:04:05Z"},
			"attachment":{"token":"spaceatt_…","url":"http://%s/v1/sessions/ses_1/attach","expires_at":"2026-01-02T03:09:05Z"}}`, r.Host)(w, r)
	})
	mux.HandleFunc("GET /v1/sessions/ses_1/attach", answer(200, "event: started\nid: 0\ndata: {\"at\":\"2026-01-02T03:04:05Z\"}\n\n"+
		"event: stdout\nid: 3\ndata: {\"data\":\"NDIK\"}\n\nevent: exit\nid: 3\ndata: {\"code\":0}\n\n"))
	return mux
}
