// SPDX-License-Identifier: Apache-2.0

// Package graphs is graphs: their nodes, and the memory that they allocate.
//
//	graphs.go  instantiating, and what of graphs needs a context or a GPU
//	node.go    nodes as the driver takes them (CUgraphNodeParams)
//	read.go    nodes as the driver gives them
//	memory.go  allocations of graphs, where memory is limited
//
// What only passes on what the driver says of a graph is the driver's binding. Handles have been
// looked up by the caller; addresses in nodes are checked here (package copyable).
package graphs
