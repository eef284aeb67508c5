// Package upload keeps what clients have uploaded for template builds: each a file and a record beside it, in a directory of this node.
//
// An upload is there whole or not at all. Its bytes are synced and compared with the digest that the client promised before the record
// says that it's there; the record is written last and takes effect in one step. A record without use for a day is removed with its file, and
// so is what an interrupted Put left. Nobody looks into the files here.
package upload
