// Package session keeps the sessions of a sandbox's executions on the node: it starts each in the guest, keeps its output, and tells whoever
// attaches what happened from any offset on. A Set has those of one execution; a Store has a sandbox's sets, of which those outlive
// their executions.
//
// # The life of a session
//
//	reserved (directory and spec) ─► opened in the guest ─► output … ─► exit kept ─► forgotten by the guest
//	any of them ─► lost, when its execution is gone, or was stopped and its guest didn't tell how it ended
//
// However it ended, what was kept of it is read until its sandbox is deleted, or until newer ones need the room.
//
// The directory is reserved before the guest hears of the session, and the guest starts an id only once, so a session never starts
// twice in one execution, whatever dies in between. Output is acknowledged to the guest only after it's in the ring, and the guest keeps
// what isn't acknowledged: after a daemon's death or a broken link the pump opens the session again at the ring's end, and no byte is lost or
// kept twice. The guest is told to forget a session when its exit is on file.
//
// # Whom it believes
//
// The guest is hostile: what it says about offsets, sizes and results is checked, and a session whose guest goes on breaking the rules is
// given up. What it can do wrong to a session never touches another one.
package session
