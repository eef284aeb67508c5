// Package supervise keeps the platform's roles running on one machine.
//
// One supervisor per instance starts each role as its own user, in its own session, and starts it again when it has died. The roles
// are not its hostages: it may be killed at any moment and they live on; the next supervisor finds them by their pid files and goes
// on from there. Nothing is decided by a pid alone: a pid file names a process by pid, start time and boot, and the uid is compared too.
//
// It isn't an init system: it doesn't know what the roles do, restarts nothing that is healthy, and orders them only as far as saying
// that a program may wait for another one's socket. Its invariant: at most one process per role that it started or adopted lives.
package supervise
