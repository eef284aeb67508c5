// Package pager gives a machine its memory page by page, as its guest touches it, instead of mapping a snapshot's memory file.
//
// # What runs
//
// A pager is a process of its own beside the VMM, in the same enclosure, with the same uid and without capabilities (Start starts it, Main is what
// it runs). The VMM connects to its socket and hands it a userfaultfd over which it answers the page faults of the guest's memory. The pages come
// from a Source: today a local file.
//
// # Who dies with whom
//
// The VMM keeps its end of the socket open until it ends; then the pager ends, too. A pager that ends first, or can't have a page, leaves a
// VMM that waits for it for ever: whoever started both watches the pager and ends the VMM (Pager.Why says why). A page that can't be read is never
// replaced by zeros.
//
// # Bounds
//
// All that a pager holds has a named limit: buffers, faults at once, the handshake, a working set. The VMM is a stranger to it, as it is to the host.
//
// # The working set
//
// The first machine that is loaded from a snapshot has the pages noted that are asked for at the beginning, in order. Later ones get those before they
// ask. The file is beside the snapshot and belongs to it; one that is cut off, or another snapshot's, is ignored and made anew.
package pager
