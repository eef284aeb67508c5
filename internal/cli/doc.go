// Package cli is the command line of SPACE for people who use sandboxes: run, exec, sandbox, template, operation.
//
// It's a client of the public API and nothing more. What it shows goes to stdout, as a table or with -o json as the API's documents;
// what it says about itself goes to stderr. Commands are made by constructors; nothing is global.
//
// # Exit codes
//
//	0        it worked
//	1        it didn't: the error is on stderr, with its code and the next step
//	2        it was called wrongly
//	125      run, exec: the platform failed, the command's own end isn't known
//	126,127  run, exec: the program couldn't be started, or wasn't found
//	128+n    run, exec: signal n ended the command; 130 also: interrupted
//	other    run, exec: the command's exit code
package cli
