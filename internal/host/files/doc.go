// Package files passes what a caller asks of a guest's files on to the guest, over one stream of its link, and what the guest answers back.
//
// Paths are the guest's and are resolved by it alone; the host opens none. The guest is hostile: each answer must be one that the action can
// have, and what passes on was checked field by field and written anew. Names are UTF-8: a guest that has others writes U+FFFD for what isn't.
//
// Nothing is kept on the way. A caller or a guest that takes nothing holds up the other one through the window of the stream, and a call
// in which nothing moves for idleTimeout ends. So does one whose caller goes: the guest is told at once.
package files
