package api

import (
	"slices"

	space "github.com/space-platform/space"
)

// RouteFacts is what the contract says of a route as well.
type RouteFacts struct {
	Open  bool
	Needs space.Permission
	Query []string
	Body  bool
}

// Routes is the door's table for the test that compares it with the contract.
func Routes() map[string]RouteFacts {
	out := map[string]RouteFacts{}
	for pattern, r := range routes {
		query := slices.Clone(r.query)
		slices.Sort(query)
		out[pattern] = RouteFacts{Open: r.open, Needs: r.needs, Query: query, Body: r.body != nil}
	}
	return out
}

// Limits of the server, for its tests.
const (
	MaxBody   = maxBody
	MaxHeader = maxHeader
)

// NewHurried is New with less patience for a body.
var NewHurried = newHandler

// ServeHurried is Serve with less patience for clients.
var ServeHurried = serve
