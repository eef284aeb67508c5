// Package setup prepares a machine for an instance of the platform, and takes everything of it away again.
//
// It makes what must exist before the roles start: Debian packages, system users, directories, a configuration file. What the roles
// need beyond that (volume, kernel, templates, schema) they make themselves. Each Ensure function starts by looking at what is there, so
// a repeated or interrupted setup ends in the same place.
//
// Its invariant: it touches nothing that doesn't carry the instance's name or lie in its uid range.
package setup
