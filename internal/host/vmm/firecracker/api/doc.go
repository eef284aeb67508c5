// Package api is a client of Firecracker's API, which is HTTP over a unix socket.
//
// It has the calls that the driver makes and no others, under the names and with the fields of Firecracker's OpenAPI description, of which
// testdata holds recorded exchanges. It knows no process and no path on the host: how to connect is handed in.
//
// What isn't there on purpose: the balloon, memory hot-plug and page reporting, with which a clone would punch holes into the memory file that it
// shares with others; the metadata service, since a guest gets what it needs over its link.
package api
