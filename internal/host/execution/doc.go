// Package execution keeps the executions of this node: each one's machine, from the order to its last trace.
//
// # The life of an execution
//
//	Ensure ─► pending ─► running ─► lost
//	             └─► failed
//	any of them ─► Remove ─► nothing
//
// One goroutine owns an execution and does everything to it, one thing after the other. What it is about to do is on file before it does
// it, so that after a crash each step finds what the one before it left:
//
//  1. the record, with the uid and with it all names: from now on whatever exists belongs to somebody
//  2. the machine's own disk and memory, cloned from the template's base snapshot
//  3. the enclosure: namespaces, tap, cgroup, root directory
//  4. the machine, and its handle in the record
//  5. the guest's acknowledgement of clock, seed and identity: the execution runs
//
// A step that fails, or is found unfinished by the next life, is undone whole and, if the execution is only pending, done again. To
// undo is the same at any step: kill what runs under the uid, wait, remove the enclosure, then the files, and the record last.
//
// # Loss
//
// When the machine's process is gone and nobody told it to go, the execution is lost, at once and for good: it's never started again
// under its name. Its disk stays until Remove; its process, namespace, cgroup, uid and memory go. A link that breaks while the process
// lives is no loss: it's made again with back-off, and the sessions go on.
//
// # A new daemon
//
// Close lets machines run on. Open of the next life finds them by their handles, greets each guest over a new link and takes the sessions
// up where their logs end.
package execution
