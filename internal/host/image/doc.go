// Package image turns what people keep root file systems in (OCI images from a registry or an archive, archives of `docker save`, plain tar
// archives) into a directory tree.
//
// Nothing that comes in is believed. A registry's blobs are checked against their digests, and each layer's content against the
// image's configuration. An entry of an archive is put beneath the tree's root, whatever its name, its links and the links that are there
// already say: each path is walked part by part from the root's descriptor and no link is followed by the kernel. What would leave the root is
// refused, as is what would take more than the limits allow; the error names the entry. A refused tree is half full: its maker throws it away.
//
// # Layers
//
// The first layer is applied to an empty tree, each next one on top of it. As the OCI image specification says: ".wh.NAME" removes NAME,
// ".wh..wh..opq" all that a directory had before this layer; an entry replaces what has its name, except that a directory stays
// when a directory replaces it and only its attributes change.
//
// Ownership, modes with setuid, hard links, devices, times and extended attributes are kept. trusted.* and the labels of other machines'
// security modules aren't: they mean nothing in a guest.
package image
