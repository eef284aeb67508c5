// Package systemd lets systemd keep the platform's roles, in the place of our own supervisor.
//
// It writes a unit for each program that a supervisor would start, from the same description, so that both start the same thing as the same
// user; a target holds them together. All files carry the instance's name, as instances of templates that don't exist: platforms of several
// builds live side by side, and removing one touches no other.
//
// Its invariant: what it writes is complete. No unit depends on a supervisor, on a directory in /run that somebody made before the last
// reboot, or on a caller's environment. It decides nothing about machines: they live outside the units and outlast them.
package systemd
