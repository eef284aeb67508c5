package space

import (
	"errors"
	"fmt"
	"strings"
)

// Code is the stable name of an error: the same word in the API's problem documents, in the SSE events and in the CLI.
type Code string

// The error codes.
const (
	CodeInvalid             Code = "invalid_request"        // a field is wrong; the detail names it and its limit
	CodeUnauthenticated     Code = "unauthenticated"        // no key or token, or one that isn't valid
	CodeForbidden           Code = "forbidden"              // a valid material that doesn't open this
	CodeNotFound            Code = "not_found"              // missing, or another project's
	CodeMethod              Code = "method_not_allowed"     // the path is served, with other methods
	CodeConflict            Code = "conflict"               // the state doesn't allow it
	CodeIdempotencyMismatch Code = "idempotency_mismatch"   // the same Idempotency-Key with another body
	CodeTooLarge            Code = "too_large"              // a body or field over its limit
	CodeMediaType           Code = "unsupported_media_type" // a body that isn't of a type that is taken
	CodeRange               Code = "range_unsatisfiable"    // a file has no bytes where the Range asks for them
	CodeShapeUnavailable    Code = "shape_unavailable"      // the template has no snapshot of that shape
	CodeTemplateNotReady    Code = "template_not_ready"     // the template is being built, or its build failed
	CodeSnapshotUnusable    Code = "snapshot_unusable"      // the snapshot is damaged, was exchanged, or doesn't fit the node; the detail says whether its disk can be booted
	CodeQuotaExceeded       Code = "quota_exceeded"         // the project's quota is used up
	CodeCapacity            Code = "capacity_exhausted"     // no node has room
	CodeRouteStale          Code = "route_stale"            // same sandbox, another incarnation: resolve again
	CodeRouteDenied         Code = "route_denied"           // the route is another sandbox's
	CodeExecutionLost       Code = "execution_lost"         // the machine is gone and couldn't be saved
	CodeSessionLost         Code = "session_lost"           // the session's execution is gone
	CodeTokenExpired        Code = "token_expired"          // an attachment token past its time
	CodeUnavailable         Code = "unavailable"            // a part of the platform isn't there right now; try again
	CodeTimeout             Code = "timeout"                // a deadline passed
	CodeGuest               Code = "guest_error"            // the guest refused, with its reason
	CodeInternal            Code = "internal"               // a bug or a broken host; the operator's log has the chain
)

// httpStatus maps each code to the one HTTP status it answers with.
var httpStatus = map[Code]int{
	CodeInvalid:             400,
	CodeUnauthenticated:     401,
	CodeForbidden:           403,
	CodeNotFound:            404,
	CodeMethod:              405,
	CodeConflict:            409,
	CodeIdempotencyMismatch: 409,
	CodeTooLarge:            413,
	CodeMediaType:           415,
	CodeRange:               416,
	CodeShapeUnavailable:    422,
	CodeTemplateNotReady:    409,
	CodeSnapshotUnusable:    409,
	CodeQuotaExceeded:       429,
	CodeCapacity:            503,
	CodeRouteStale:          409,
	CodeRouteDenied:         403,
	CodeExecutionLost:       410,
	CodeSessionLost:         410,
	CodeTokenExpired:        401,
	CodeUnavailable:         503,
	CodeTimeout:             504,
	CodeGuest:               422,
	CodeInternal:            500,
}

// Codes returns every code.
func Codes() []Code {
	out := make([]Code, 0, len(httpStatus))
	for c := range httpStatus {
		out = append(out, c)
	}
	return out
}

// HTTPStatus returns the status that a code answers with; an unknown code is internal.
func (c Code) HTTPStatus() int {
	if s, ok := httpStatus[c]; ok {
		return s
	}
	return 500
}

// Error is an error with a stable code. Message is for users: it says what to do next and holds no secret and no path of a machine of
// ours. The wrapped error is for operators only.
type Error struct {
	Code    Code
	Field   string // the request field that is wrong, if one is
	Message string
	Err     error

	Operation string // op_…, of a conflict with one that is under way
}

// Errorf returns an Error with a formatted message. A cause at its end, ": %w", is kept for operators: users read of it only what an Error in
// its chain has for them. A cause that is all there is, "%w", is the message.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	cause := errors.Unwrap(err)
	return &Error{Code: code, Message: forUsers(err.Error(), cause), Err: cause}
}

// forUsers is the text of an error without what its cause has for operators.
func forUsers(text string, cause error) string {
	if cause == nil {
		return text
	}
	own, ok := strings.CutSuffix(text, ": "+cause.Error())
	var e *Error
	if ok && errors.As(cause, &e) {
		return own + ": " + e.Message
	}
	return own
}

// FieldErrorf returns an invalid_request that names the field.
func FieldErrorf(field, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Error returns the code and the message, and what the message leaves out of the cause: it's the text for operators.
func (e *Error) Error() string {
	s := string(e.Code) + ": "
	if e.Field != "" {
		s += e.Field + ": "
	}
	s += e.Message
	if e.Err != nil && !strings.Contains(e.Message, e.Err.Error()) {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first Error in err's chain, CodeInternal for any other error, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
