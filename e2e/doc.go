// Package e2e tries the platform from outside, as its users do: the real binaries, PostgreSQL, QEMU, kernel and nftables of one instance
// that the tests start and remove. The tests are built with the tag e2e and need root; 'make test' runs them.
//
// After the last test everything that belonged to the instance must be gone: see leftovers_test.go.
package e2e
