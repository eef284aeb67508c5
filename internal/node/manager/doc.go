// Package manager is sbx-manager: it owns the node's runtime records and decides, from what the control plane ordered and what
// spaced-host has, what happens to each execution. It holds no privilege; the host does what has to be done.
//
// # Who writes what
//
// A record has two halves with one writer each. Wanted comes from the control plane's orders. State comes from the host: from its
// Watch alone, which is an ordered stream of complete statements, so that no two sources can disagree about what is newer. (The one
// addition: an EnsureExecution that the host refuses for good is a failed execution, even if the host keeps nothing of it.) Records are
// written to disk before anything is done or said because of them. The exception is an execution that is wanted and has come to nothing yet.
//
// # After a crash
//
// Nothing else is needed after a crash than the records: an order to stop or to remove is on disk before it is begun, every call on the host can be
// repeated, and every worker starts by asking what its record still lacks. An order to make an execution is on no disk here, so that no machine
// waits for one. What the host has begun of it is in its Watch, from which it's taken in; what it hasn't begun is missing in the next report, and
// ordered again. In between there's nothing: each life of the manager has a number, and when a later one has begun to listen, the host refuses
// what an earlier one asked for and it hasn't begun. Until the host's first Watch message the report says that
// it's incomplete, so that the control plane draws no conclusion from what is missing in it.
//
// # Never twice
//
// An execution is never created again after it ran or was removed; a fresh machine under an old name would hide a loss.
//
//   - One that ran and isn't in a later Watch message is lost, and stays lost until its removal is ordered. Only a pending one is
//     given to EnsureExecution. Watch messages are handled in the order of their making, also across reconnects, because one stream has ended
//     before the next is opened; so a message without an execution that an earlier one had is news, never history.
//   - A removed one leaves a tombstone, which refuses a late EnsureExecution. When may the tombstone go? The control plane never wants an
//     execution again that it has once ordered to be removed: that intent was committed before the order was sent, and a new
//     incarnation has a new id. The manager takes answers in the order in which it made the calls, and has given up every earlier
//     call before it takes the answer of a later one. So every call that starts after RemoveExecution was received is answered by
//     somebody who knows of the removal. When such a call has reported, completely, that the execution is gone, and its answer
//     doesn't name the execution any more, then no order about it can still be on its way, and the tombstone is dropped. Until
//     then it stays, however often the process dies in between.
//   - In the same process the worker of an execution does one thing at a time: a removal cancels an EnsureExecution in flight and waits
//     for its end before it begins. The host keeps the same promise for a call that it goes on with after its caller has died, and
//     should it show a removed execution once more, the tombstone becomes an unfinished removal again.
//
// # Stopped
//
// A stopped execution has its disk and no machine; it's stopped on order only, and the host's Watch says when it is. It never runs again: starting
// the sandbox makes a new execution that takes over the disk (disk_of), and this one is removed by an order of its own.
//
// # Standing still
//
// What is wanted may also be paused or suspended, and the newest of these orders counts, until a stop or a removal: so a restarted host or manager resumes
// nothing by itself. When the host refuses a pause or a resume for good, nothing is wanted any more but what is, and the report has the refusal with the operation that
// asked for it, so that it isn't tried again by the same order. A suspend that fails is told by its snapshot, which the host, or for what it never began the manager, reports as failed.
//
// Orders about snapshots are kept in memory alone: they come again until the report shows what they ask for. Until the host shows a snapshot it's reported
// as being made.
//
// # Streams
//
// An Attach or a Call is admitted under the lock that guards the records, by comparing its whole route with the record of its execution, and is
// entered in a list under that same lock. Whoever changes a record ends the streams that it would no longer admit, before it gives the
// lock back. A session's stream goes on when its execution is stopped or lost: the host still has what its client hasn't got. A pause ends no stream, and lets no
// new one in.
package manager
