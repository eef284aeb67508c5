// Package rootfs makes the file systems of templates: ext4 images of a recipe's files, of a Debian with packages, of an OCI image, or of a tar
// archive.
//
// The work is done by a helper, another process of the same program with mount and pid namespaces of its own: Helper starts it, and when it's
// killed nothing of it is left, neither processes nor mounts. The helper needs root. What it makes is a directory with disk.img in it,
// sparse and not synced; whoever ordered it makes it durable.
//
// # Whose content
//
// Recipes and Debians come from signed archives; their programs run in the tree while it's made. Images and archives come from anybody: the
// helper that takes them apart sees the machine's programs and what it was ordered to work with, and nothing else; it has the
// capabilities that it takes to make other users' files, and no network unless it talks to a registry. Nothing of theirs runs.
//
// # What is added
//
// An image stays as it is, except for what every container runtime adds where it's missing: mount points (/proc, /sys, /dev, /run, /tmp),
// /etc/hosts, /etc/resolv.conf, /etc/hostname, and the working directory. The guest's agent isn't part of it: it comes with the kernel.
//
// Two recipes exist. base is Debian with Python, Node, git and more through the machine's own package sources; mini is a static busybox, for
// tests. Both have the users root and user (uid 1000), and neither holds a secret of the machine that made it.
package rootfs
