package space

// titles says in words for people what each code means, the same wherever an error of that code is shown.
var titles = map[Code]string{
	CodeInvalid:             "The request is invalid",
	CodeUnauthenticated:     "Not authenticated",
	CodeForbidden:           "Not allowed",
	CodeNotFound:            "Not found",
	CodeMethod:              "Method not allowed",
	CodeConflict:            "The state does not allow it",
	CodeIdempotencyMismatch: "The Idempotency-Key belongs to another request",
	CodeTooLarge:            "Too large",
	CodeMediaType:           "Not a type that is taken",
	CodeRange:               "No such range",
	CodeShapeUnavailable:    "The shape is not available",
	CodeTemplateNotReady:    "The template is not ready",
	CodeSnapshotUnusable:    "The snapshot can't be used",
	CodeQuotaExceeded:       "The quota is used up",
	CodeCapacity:            "No capacity",
	CodeRouteStale:          "Another incarnation",
	CodeRouteDenied:         "Another sandbox",
	CodeExecutionLost:       "The machine is lost",
	CodeSessionLost:         "The session is lost",
	CodeTokenExpired:        "The token has expired",
	CodeUnavailable:         "Temporarily unavailable",
	CodeTimeout:             "Took too long",
	CodeGuest:               "The guest refused",
	CodeInternal:            "Internal error",
}

// Title returns a short name of the error for people; an unknown code is internal.
func (c Code) Title() string {
	if t, ok := titles[c]; ok {
		return t
	}
	return titles[CodeInternal]
}

// ProblemType is the code's type in an RFC 9457 document.
func (c Code) ProblemType() string { return "urn:space:problem:" + string(c) }
