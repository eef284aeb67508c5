// Package process runs sessions: one command each, started once, whose output is kept until it was acknowledged.
//
// A session's stdout and stderr are pipes that are read into one log, in the order in which they are read. The log is bounded; when it's full
// the pipes aren't read and the command waits, as it would for any slow reader. Whoever serves a session reads the log from any
// offset that wasn't acknowledged yet, as often as needed, and then the exit.
//
// The exit is recorded when the command has ended and all it wrote is in the log. A child that it left behind may keep the pipes
// open; it isn't waited for: what it writes within exitGrace still counts, what comes later is read and dropped so that it doesn't block or die of it.
//
// A session may have a terminal instead of pipes: its output is one stream. When its command ends the kernel hangs the terminal up, as any; what was left
// behind and ignores that lives on, without a terminal.
//
// A session ends by itself, by a signal, or by its timeout. Nothing else ends it: not that nobody serves it, and not that the host is gone.
//
// The invariant: no byte that the command wrote is lost or repeated, and memory doesn't depend on how much it writes.
package process
