// Package service serves what spaced-host does to sbx-manager: HostService and SessionService on one unix socket. It translates between
// the wire and the packages that do the work, checks what comes in, and does nothing itself.
package service
