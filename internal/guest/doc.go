// Package guest is the agent in a sandbox's machine: it answers the calls of guest.v1 over one link.
//
// It runs as the first process of the machine (see boot), or as an ordinary process for tests and the fake driver: then its port is
// a unix socket, and it changes neither clock nor generator nor name. It trusts the host and holds no secret.
package guest
