package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

// problem is an error as the SDKs read it. Both of them look at the code in the body, which is the status of HTTP once more.
type problem struct {
	Code      int    `json:"code"`
	Message   string `json:"message"`
	ErrorCode string `json:"error_code,omitempty"`
}

// Error implements error.
func (p *problem) Error() string { return fmt.Sprintf("%d: %s", p.Code, p.Message) }

func refuse(status int, format string, args ...any) error {
	return &problem{Code: status, Message: fmt.Sprintf(format, args...)}
}

// unsupported is the answer to what the platform doesn't have. It's the request's fault: a status of the server's would have clients and proxies repeat it.
func unsupported(what string) error {
	return refuse(http.StatusBadRequest, "%s: this platform doesn't have that yet; docs/e2b.md lists what it has", what)
}

// statuses are those of the platform's codes that E2B's API says in other words.
var statuses = map[space.Code]int{
	space.CodeTemplateNotReady: http.StatusBadRequest, space.CodeShapeUnavailable: http.StatusBadRequest, space.CodeTooLarge: http.StatusBadRequest,
	space.CodeExecutionLost: http.StatusNotFound, space.CodeGuest: http.StatusInternalServerError,
}

// understand makes an answer for an SDK of any error.
func understand(ctx context.Context, err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	var e *client.Error
	if !errors.As(err, &e) {
		if ctx.Err() == nil {
			slog.WarnContext(ctx, "the platform couldn't be asked", "err", err)
		}
		return &problem{Code: http.StatusServiceUnavailable, Message: "the platform doesn't answer right now: try again"}
	}
	code := space.Code(e.Code)
	status, ok := statuses[code]
	if !ok {
		status = code.HTTPStatus()
	}
	p = &problem{Code: status, Message: e.Detail}
	if e.Field != "" {
		p.Message = e.Field + ": " + e.Detail
	}
	switch code {
	case space.CodeCapacity:
		p.ErrorCode = "sandbox_capacity_unavailable"
	case space.CodeInternal:
		p.ErrorCode = "internal_server_error"
	}
	return p
}

// answer sends a document.
func answer(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // the client is gone
}

// fail answers with an error, which always has a body: some SDKs take an empty one for a success.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	var lost *goneError
	if errors.As(err, &lost) {
		answer(w, lost.Code, lost)
		return
	}
	p := understand(r.Context(), err)
	switch p.Code {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	answer(w, p.Code, p)
}

// is tells whether an error is the platform's of a code.
func is(err error, codes ...space.Code) bool {
	var e *client.Error
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range codes {
		if space.Code(e.Code) == c {
			return true
		}
	}
	return false
}
