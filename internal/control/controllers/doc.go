// Package controllers has the loops that keep promises at times when nobody asks. Each selects by a pure function, acts through the use
// cases that clients use, in bounded batches, and begins again from the records: it has no memory that a restart could lose.
package controllers
