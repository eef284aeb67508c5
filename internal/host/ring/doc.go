// Package ring keeps the output of one session on the node, so that a client, a daemon or a machine's pause may come and go without
// a byte lost or told twice.
//
// A ring is a directory of segment files. Each holds records of stdout and stderr in the order in which they were appended; an offset
// counts the bytes of both together from the session's beginning. At most a limit of bytes is kept. Who is attached as a reader is
// never overtaken: a full ring makes Append wait for the slowest reader, as a pipe would. While nobody is attached Append never waits:
// the oldest segment goes, and a later reader is told the gap.
//
// What Append has returned for survives the death of the process, not of the machine: a session's virtual machine dies with its host,
// so nothing is synced. A record that was being written when the process died is cut off by the next Open; it was never acknowledged.
package ring
