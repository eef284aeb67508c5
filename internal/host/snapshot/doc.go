// Package snapshot keeps the snapshots of sandboxes that are on this node: each a directory with the manifest, the disk, and of a full one memory and
// device state, and the sessions that were open.
//
// # How one is made
//
// Begin names it and makes a directory with another name, in which its maker puts the files; from then on it's reported as making. Publish makes them
// durable, writes the manifest after them, makes the directory, a btrfs subvolume, read-only, and gives it its name: from then on it's ready, also after a
// power loss. What a life of the daemon left without its name is removed by the next one; who ordered it orders it again.
//
// # What is compared before a load
//
// The manifest names what the machine was and what the files hold. Its digest is the snapshot's: who orders a load says it, so that a snapshot that was
// exchanged, set back or mixed isn't loaded. The files must be those that were there when the manifest was written or read, by inode and time of change; their
// data is read and compared once in each life of the daemon. Of memory and disk that's what the machine had changed since they were copied from its origin, another
// snapshot or the template's; the rest must share the origin's blocks, as long as that's there. A disk whose origin was gone when it was saved is read whole.
//
// # Forks
//
// From the second load on a driver that can only share a sealed memfd gets one, which holds the memory once for all machines, as a template's does. It's let go
// of when nobody has loaded the snapshot for a while.
//
// # What a removal takes
//
// Machines have clones of the files. Where a driver maps the memory of a snapshot for all its machines, those that run keep it: the file goes with the
// last of them. So a removal only waits for machines that are being loaded.
package snapshot
