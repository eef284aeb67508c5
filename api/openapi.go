// Package api carries the platform's contracts: the public API's document, and below it the protocols in which the halves meet.
package api

import _ "embed"

//go:embed openapi.yaml
var openapi string

// OpenAPI returns the public API's contract as it is served.
func OpenAPI() string { return openapi }
