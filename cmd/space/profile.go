//go:build !load

package main

import "net/http"

// profiled adds nothing: a profile shows what a role is doing and slows it down, and everybody on the machine reaches the operator's port.
func profiled(h http.Handler) http.Handler { return h }
