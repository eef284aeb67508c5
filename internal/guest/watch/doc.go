// Package watch tells what happens in a directory, and in those below it if that is wanted.
//
// The kernel watches single directories. One that is made is watched as soon as its event is read, and then looked at: what came into it in between
// is told from that. So nothing is missed, however fast a tree grows; what was seen twice is told once, but for rare races, in which it's told twice.
// Where the kernel itself had to drop events, an overflow is told, after which everything is seen again: whoever reads that must look at everything anew.
//
// A directory that the user may not read isn't watched, nor are the kernel's own file systems, such as /proc.
package watch
