package edge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// answerTime is what a client has for an answer that isn't a stream, and usually for a body of JSON.
const answerTime = 30 * time.Second

// answer is what a client gets. It knows whether it has begun, and gives each piece its own time to be taken.
type answer struct {
	http.ResponseWriter
	flow     *flow
	progress time.Duration // for a piece of a body, in either direction
	whole    time.Duration // for a body of JSON
	begun    bool
}

func newAnswer(w http.ResponseWriter, t timing) *answer {
	return &answer{ResponseWriter: w, flow: &flow{ResponseController: http.NewResponseController(w)}, progress: t.progress, whole: t.body}
}

// Unwrap is for http.ResponseController and for who takes the connection over.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader begins the answer.
func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.flow.SetWriteDeadline(time.Now().Add(answerTime)) // a request may have taken longer than the server's own limit
	a.ResponseWriter.WriteHeader(status)
}

// Write begins the answer if that hasn't happened.
func (a *answer) Write(b []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// piece writes a part of a body, for which the client has the time of progress.
func (a *answer) piece(b []byte) error {
	if err := a.flow.SetWriteDeadline(time.Now().Add(a.progress)); err != nil {
		return fmt.Errorf("limit the time for a piece: %w", err)
	}
	if _, err := a.Write(b); err != nil {
		return fmt.Errorf("write a piece: %w", err)
	}
	return nil
}

// json answers with a value.
func (a *answer) json(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	return a.raw(status, append(b, '\n'))
}

// raw answers with JSON as it is.
func (a *answer) raw(status int, b []byte) error {
	a.Header().Set("Content-Type", "application/json")
	a.Header().Set("Cache-Control", "no-store")
	a.WriteHeader(status)
	a.Write(b) // a client that has left learns nothing more
	return nil
}

func (a *answer) noContent() error {
	a.Header().Set("Cache-Control", "no-store")
	a.WriteHeader(http.StatusNoContent)
	return nil
}
