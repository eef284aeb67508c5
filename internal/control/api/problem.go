package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

// problem is the RFC 9457 document of an error.
func problem(e *space.Error) *gen.Problem {
	return &gen.Problem{
		Type: e.Code.ProblemType(), Title: e.Code.Title(), Status: e.Code.HTTPStatus(), Code: string(e.Code),
		Detail: notEmpty(e.Message), Field: notEmpty(e.Field), Operation: notEmpty(e.Operation),
	}
}

// problemOrNil is the document of an error that may not be.
func problemOrNil(e *space.Error) *gen.Problem {
	if e == nil {
		return nil
	}
	return problem(e)
}

// problemOf is the document of an error that came of a request that was answered before, if there is one.
func problemOf(e *space.Error, request string) *gen.Problem {
	p := problemOrNil(e)
	if p != nil {
		p.RequestId = notEmpty(request)
	}
	return p
}

func notEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// fail answers with the problem that an error is. An error without a code is for the operator: the client learns the request's id.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	e := classify(err)
	id := requestID(r.Context())
	if e.Code.HTTPStatus() >= 500 {
		slog.Error("a request went wrong", "request", id, "code", string(e.Code), "err", err, "cause", errors.Unwrap(e))
	}
	p := problem(e)
	p.RequestId = notEmpty(id)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client is gone
}

func classify(err error) *space.Error {
	var e *space.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return &space.Error{Code: space.CodeUnavailable, Message: "the request was cancelled before it was answered; try again", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &space.Error{Code: space.CodeTimeout, Message: "the request took too long; try again", Err: err}
	default:
		return &space.Error{Code: space.CodeInternal, Message: "an internal error; the operator's log has the cause under the request's id", Err: err}
	}
}
