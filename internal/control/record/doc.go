// Package record holds the control plane's nouns as plain values: what was asked for, and what a node has seen of it. Use cases,
// the node's synchronization and the store speak it to each other. It does no I/O and decides nothing.
package record
