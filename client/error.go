package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	api "github.com/space-platform/space/api/gen/http"
)

// maxBody bounds an answer that isn't a stream: a page of a hundred sandboxes with all their metadata fits.
const maxBody = 8 << 20

// maxErrorText bounds what an error repeats of an answer that isn't a problem document.
const maxErrorText = 200

// Error is a refusal by the platform.
type Error struct {
	Code      string // stable, for programs: not_found, quota_exceeded, …
	Detail    string // for people: what happened and what to do
	Field     string // the field of the request that is wrong, if one is
	Status    int    // of the HTTP answer; 0 when the error came in a stream or an operation
	RequestID string // finds the request in the operator's log
	Operation string // op_…, of a conflict with one that is under way
}

// Error returns the code, the field and the detail.
func (e *Error) Error() string {
	parts := []string{e.Code}
	if e.Field != "" {
		parts = append(parts, e.Field)
	}
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	return strings.Join(parts, ": ")
}

// fromProblem reads an error off a problem document.
func fromProblem(p api.Problem, status int) *Error {
	e := &Error{Code: p.Code, Detail: text(p.Detail), Field: text(p.Field), Status: status, RequestID: text(p.RequestId), Operation: text(p.Operation)}
	if e.Detail == "" {
		e.Detail = p.Title
	}
	return e
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// decode reads an answer's document, or its error. It takes the results of the generated client as they come.
func decode[T any](resp *http.Response, err error) (T, error) {
	var out T
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return out, fmt.Errorf("read the answer to %s %s: %w", resp.Request.Method, resp.Request.URL.Path, err)
	}
	if len(b) > maxBody {
		return out, fmt.Errorf("the answer to %s %s is longer than %d bytes", resp.Request.Method, resp.Request.URL.Path, maxBody)
	}
	if resp.StatusCode >= 300 {
		return out, refusal(resp, b)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return out, fmt.Errorf("read the answer to %s %s: %w", resp.Request.Method, resp.Request.URL.Path, err)
	}
	return out, nil
}

// refusal makes an Error of an answer that isn't a success; one that isn't a problem document came from something in between.
func refusal(resp *http.Response, body []byte) *Error {
	var p api.Problem
	if json.Unmarshal(body, &p) == nil && p.Code != "" {
		return fromProblem(p, resp.StatusCode)
	}
	shown := strings.ToValidUTF8(string(body[:min(len(body), maxErrorText)]), "")
	return &Error{Code: codeOf(resp.StatusCode), Status: resp.StatusCode,
		Detail: fmt.Sprintf("%s %s answered %s: %s", resp.Request.Method, resp.Request.URL.Path, resp.Status, strings.TrimSpace(shown))}
}

// codeOf names a status that came without a code.
func codeOf(status int) string {
	if status == http.StatusBadGateway || status == http.StatusServiceUnavailable {
		return "unavailable"
	}
	return "unexpected_answer"
}

// done reads an answer of which only its success matters.
func done(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusNoContent {
		return resp.Body.Close()
	}
	_, err = decode[json.RawMessage](resp, nil)
	return err
}
