// Package files does what a caller of the API asks of a guest's files.
//
// Every call runs with the rights of the user it names: the kernel decides what that user may do, and what is new belongs to that user. Paths are the
// guest's: they are resolved here and nowhere else, with symbolic links and all. A relative one begins at the user's home.
//
// Named pipes, devices and sockets are listed, renamed and removed, but never opened for their content: that could wait for ever.
package files
