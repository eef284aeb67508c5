// Package nodesync serves the one verb between nodes and the control plane: a node says what it has, and is told what it should have.
//
// Decide is pure: from what is wanted, what is recorded and what the node reports follow the orders to give and the observations to
// write. Node does it: it takes one call at a time, writes what is new in one transaction, and lets the call hang until there are
// orders. Only this package writes what is observed.
//
// Absence is believed only when two complete reports in a row agree on it: a call that was overtaken by a newer one can't make a machine
// lost or gone that is there.
package nodesync
