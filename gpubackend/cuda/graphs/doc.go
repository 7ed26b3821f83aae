// SPDX-License-Identifier: Apache-2.0

// Package graphs has the graphs: their nodes, and the memory that they allocate.
//
//	graphs.go  instantiating, and what of graphs needs a context or a GPU
//	node.go    nodes as the driver takes them (CUgraphNodeParams)
//	read.go    nodes as the driver gives them
//	memory.go  allocations of graphs, where memory is limited
//
// Functions that only ask the driver about a graph are in its binding. Handles have been looked up
// by the caller; addresses in nodes are checked here (package copyable).
package graphs
