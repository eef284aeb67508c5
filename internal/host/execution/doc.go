// Package execution keeps the executions of this node: each one's machine, from the order to its last trace.
//
// # The life of an execution
//
//	Ensure ─► pending ─► running ◄─ Pause, Resume ─► paused
//	             │          ├────────► lost ◄──────────┤
//	             │          ├─► Stop ─► stopped ◄──────┤
//	             │          └─► Suspend ─► suspended ◄─┘
//	             └─► failed
//	any of them ─► Remove ─► nothing
//
// One goroutine owns an execution and does everything to it, one thing after the other. What it is about to do is on file before it does
// it, so that after a crash each step finds what the one before it left:
//
//  1. the record, with the uid and with it all names: from now on whatever exists belongs to somebody
//  2. the machine's own disk and memory, cloned from a snapshot of the template; or its disk alone (see Booting)
//  3. the enclosure: namespaces, tap, cgroup, root directory
//  4. the machine
//  5. the guest's acknowledgement of clock, seed and identity
//  6. the record with the machine's handle: the execution runs
//
// A step that fails, or is found unfinished by the next life, is undone whole and, if the execution is only pending, done again. To
// undo is the same at any step: kill what runs under the uid, wait, remove the enclosure, then the files, and the record last.
//
// # The pool
//
// Slots are machines that did steps 2 to 4 before anybody asked: loaded, warm, paused. A slot has an identity of its own, with an enclosure and a
// directory that are named by it, and no record: what a crash leaves of it belongs to nobody and is removed by the next life. An execution takes
// a slot of its template's snapshot by greeting the guest under its own identity, and is on file when that has acknowledged; enclosure and
// directory keep the slot's name. If there is none, or it doesn't answer, the steps above are done.
//
// # Booting
//
// A machine boots instead of being loaded when the template has no snapshot of the size that is wanted, which is ordered then for the next
// time, or when it's to have the disk of an execution of its sandbox that has ended. Either way it gets a copy that shares its blocks with the
// original, made as large as wanted; the guest makes its file system larger itself. The execution that ended keeps its disk: a start may go
// wrong at any moment and be tried again, and once the new one runs, the old one is removed by an order of its own. The memory of a machine that boots
// is in no file: one on the volume would be written out again and again, and a full volume would kill the guest.
//
// # Stopping
//
// What Stop does is on file before it's done, too: the intent, then the processes end within their grace and the guest writes out its files
// within a deadline, then everything is freed but the disk, which is synced, then the state. A guest that doesn't answer loses what it hadn't written, as in a power loss: its
// disk has a journal. The next life of the daemon goes on from any of these steps.
//
// # Standing still
//
// The owner takes commands while there's a machine, one after the other: pause, resume, suspend, take a snapshot. What each of them does to the machine is
// undone if a step fails, and by the next life of the daemon if this one dies: a machine whose record says that it runs is resumed, one whose record says that it's
// paused is paused. Before a machine stands still its guest comes to rest, so that no process reads a clock or draws random bytes before the next greeting
// has set them.
//
// A suspend is done when its snapshot has its name. The record says from the beginning which one that would be, so that the next life knows; then machine,
// memory and disk go, and the record says that it's suspended. Of a snapshot that is taken of a machine that goes on, all that takes time is done afterwards, beside it.
//
// # Loading
//
// A machine is loaded from a snapshot of its own or of another sandbox as from a template's, always as a new execution. Its memory begins as a copy of
// the snapshot's, which it keeps though the snapshot may go: what changed since is written over that when it's saved. The sessions in the snapshot go on in it;
// in the same sandbox the older executions give them up when this one runs.
//
// # Loss
//
// When the machine's process is gone and nobody told it to go, the execution is lost, at once and for good: it's never started again
// under its name. So it is when the machine's memory comes page by page and can't be had. Its disk stays until Remove, and another execution can start from it; its process, namespace, cgroup, uid and memory go. A link that breaks while the process
// lives is no loss: it's made again with back-off, and the sessions go on.
//
// # What outlives an execution
//
// Sessions that have ended belong to the sandbox (see keptSessions): their output and how they ended stay until the last of its executions is removed,
// which is when the sandbox is deleted.
//
// # A new daemon
//
// Close lets machines run on. Open of the next life finds them by their handles, greets each guest over a new link and takes the sessions
// up where their logs end.
package execution
