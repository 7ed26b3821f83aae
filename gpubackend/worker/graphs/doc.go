// SPDX-License-Identifier: Apache-2.0

// Package graphs has the guest's handles of graphs and nodes, whose driver handles are reused, and
// the records as which nodes travel (docs/commands.md, "Records").
//
// # Who owns what
//
// The worker's loop owns Graphs. Objects are in the object table; a node ends with its graph. Names
// of what is gone are swept, since the driver may reuse its handles. The driver destroys the graph
// of a capture that fails: the guest's handle goes with it (captures.go).
//
// # Who may lie
//
// Records, and handles in them, are the guest's: each is copied, decoded by its description, and
// its handles are looked up. How many graphs, executable graphs and nodes there are is bounded
// (limits.go).
package graphs
