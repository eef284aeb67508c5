// Package template keeps the templates of this node: each a directory with a base snapshot, from which any number of machines are loaded.
//
// # A build
//
//  1. a helper makes the file system by a recipe (see rootfs)
//  2. an ordinary jailed machine boots from it with its memory in a file, and runs the recipe's warm-up commands
//  3. the guest writes everything to its disk; the link is closed, the machine paused, its device state saved, its process killed
//  4. what belongs together is synced: disk.img, mem.img, state.bin, and manifest.json last
//  5. the directory, a btrfs subvolume, becomes read-only and gets its name
//
// So a template with a name is whole, and a build that died is a directory without one, which the next Open removes. A template is never changed:
// one that a newer kernel, guest or recipe has overtaken is removed at Open, and whoever wants it orders it again. Machines that were
// loaded from it have clones of their own.
package template
