// Package space is the vocabulary of SPACE: the words that the API, the database, the logs and the documentation share.
//
// A sandbox is one instance of a template: a stable id, and a virtual machine of its own. An execution is one incarnation
// of that machine on one node; its epoch only grows. A route names an execution completely (sandbox, execution, epoch,
// placement), and every internal call carries one, so that a request for one incarnation never reaches another. A session
// is one command in a sandbox. An operation is a lifecycle change in progress.
//
// The package imports the standard library only and does no I/O: everything else may speak it.
package space
