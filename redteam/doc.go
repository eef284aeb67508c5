// Package redteam attacks the platform from outside: through the public API, the edge and the inside of a guest, as somebody does who has
// keys and a sandbox of their own and wants more. Each test is named after the attack cases that it makes; README.md has the table.
//
// The rules of evidence: the allowed twin of an attack is done first, or as well, so that a refusal proves something; what must not change
// is looked at from the side of whoever it belongs to, not of the attacker; and every error that any test gets is searched for what an
// error must not tell (leak_test.go).
//
// All tests share one platform and its few sandboxes. They're built with the tag e2e and need root; 'make redteam' runs them.
package redteam
