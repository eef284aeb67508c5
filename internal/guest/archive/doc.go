// Package archive packs a directory's contents into a tar stream, and unpacks one into a directory.
//
// Packed are files, directories, links and hard links, with modes and times, of one file system; named pipes, sockets and devices are left out. Owners
// are told by number, and mean nothing when it's unpacked: everything belongs to the user who unpacks, or to whom
// root names.
//
// An archive that is unpacked is hostile. Nothing in it can name a place outside the directory: names are relative and have no "..", and every step
// is made from the directory itself, so that a link, whether it came with the archive or was there before, leads nowhere else. Nothing in it
// is larger than what was sent.
package archive
