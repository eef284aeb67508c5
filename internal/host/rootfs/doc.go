// Package rootfs makes the file systems of templates: ext4 images that a recipe fills.
//
// The work is done by a helper, another process of the same program with mount and pid namespaces of its own: Helper starts it, and when it's
// killed nothing of it is left, neither processes nor mounts. The helper needs root. What it makes is a directory with disk.img in it,
// sparse and not synced; whoever ordered it makes it durable.
//
// Two recipes exist. base is Debian with Python and git through the machine's own package sources; mini is a static busybox, for tests.
// Both have the users root and user (uid 1000), and neither holds a secret of the machine that made it.
package rootfs
