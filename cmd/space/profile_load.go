//go:build load

package main

import (
	"net/http"
	"net/http/pprof"
)

// profiled adds the profiles of a role under load, for as long as an answer may take: ask for seconds=9 at most.
func profiled(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	return mux
}
