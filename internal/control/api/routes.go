package api

import (
	gen "github.com/space-platform/space/api/gen/http"
)

const (
	// maxBody bounds the body of a request.
	maxBody = 64 << 10
	// maxSandboxBody bounds the body that creates a sandbox: all metadata that is allowed, however it's escaped.
	maxSandboxBody = 512 << 10
	// maxSessionBody bounds the body that creates a session: 1 MiB of stdin in base64, 128 KiB each of arguments and environment, however
	// they're escaped.
	maxSessionBody = 3 << 20
)

// route is what the door needs to know of an operation before it's decoded. A test compares the table with openapi.yaml.
type route struct {
	open  bool       // served without a key
	query []string   // the parameters that it takes
	body  func() any // a value of the body's type; nil if it takes none
	limit int64      // of the body, in bytes
}

// routes are the operations by the pattern under which they're served.
var routes = map[string]route{
	"GET /v1/sandboxes":                                           {query: []string{"cursor", "limit"}},
	"POST /v1/sandboxes":                                          {query: []string{"wait"}, body: func() any { return new(gen.SandboxCreate) }, limit: maxSandboxBody},
	"GET /v1/sandboxes/{sandbox}":                                 {},
	"DELETE /v1/sandboxes/{sandbox}":                              {query: []string{"wait"}},
	"POST /v1/sandboxes/{sandbox}/sessions":                       {body: func() any { return new(gen.SessionCreate) }, limit: maxSessionBody},
	"GET /v1/sandboxes/{sandbox}/sessions/{session}":              {},
	"POST /v1/sandboxes/{sandbox}/sessions/{session}/attachments": {},
	"GET /v1/operations/{operation}":                              {query: []string{"wait"}},
	"GET /v1/templates":                                           {},
	"POST /v1/templates":                                          {query: []string{"wait"}, body: func() any { return new(gen.TemplateCreate) }, limit: maxBody},
	"GET /v1/templates/{template}":                                {},
	"GET /v1/node":                                                {},
	"GET /healthz":                                                {open: true},
	"GET /openapi.yaml":                                           {open: true},
}
