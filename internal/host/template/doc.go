// Package template keeps the templates of this node: each a directory with a base snapshot, from which any number of machines are loaded.
//
// # A build
//
//  1. a helper makes the first disk: a recipe's, a Debian's, or an image's or archive's content (see rootfs); or it's another template's
//  2. each step that changes the disk has an ordinary jailed machine of its own, without a network, that boots from the disk of the step before: a command
//     is a session in it, files are unpacked by its guest
//  3. a machine boots from the last disk with its memory in a file; warm-up commands run; the start command is started, and stays; the ready
//     check is tried until it succeeds
//  4. the guest writes everything to its disk; the link is closed, the machine paused, its device state saved, its process killed
//  5. what belongs together is synced: disk.img, mem.img, state.bin, and manifest.json last
//  6. the directory, a btrfs subvolume, becomes read-only and gets its name
//
// So a template with a name is whole, and a build that died is a directory without one, which the next Open removes. A template is never changed.
// Machines that were loaded from it have clones of their own. A few builds are at work at a time, fewer of one project, one of a template;
// others wait.
//
// # Layers
//
// The disk after the source and after each step is kept as a layer, by a key of all that went into it: the source's digest, the steps so far, for
// commands the kernel with the guest. A build goes on behind the last layer that is there, so what failed in a step begins with that step
// again. Layers share their blocks with templates; when they take too much, those go that were used longest ago.
//
// # What a newer kernel, guest or VMM does
//
// A snapshot that was made with others is made anew at Open, from the template's disk, in step 3; only a recipe that makes something else today is built
// from its beginning. Until then the template is building. One that can't be made anew and still loads stays as it was.
//
// # Shapes
//
// A snapshot has one shape. Who needs another one boots from the template's disk, and asks for a snapshot for the next time (BuildShape): it has a
// directory of its own beside the template's, and goes with it.
package template
