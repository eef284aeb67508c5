// Package api serves the management API as api/openapi.yaml describes it. What is generated decodes and encodes; this package keeps
// the door: it names requests, checks keys, bounds and checks what comes in strictly, and turns every error into a problem document.
// The use cases decide.
package api
