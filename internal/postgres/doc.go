// Package postgres keeps the control plane's records in PostgreSQL, the only database that it has. The schema is in migrations/, every
// statement in queries/ with its columns spelled out; db/ is generated from both. A Store returns plain values of control/record and
// knows no use case. What it says is committed is durable: it refuses a server that runs with fsync, synchronous_commit or
// full_page_writes off.
//
// A statement that is asked all the time is given a list of ids as (SELECT ids), whose length isn't known when it's planned. PostgreSQL thinks so much better of a
// plan for one or two ids than of one for any that it would plan anew each time, which takes longer than what is planned.
//
// Every wait has a deadline here, whatever the caller's is. Errors carry a code when the caller can act on it: not_found, conflict,
// idempotency_mismatch, unavailable, timeout; what is left is internal.
package postgres
