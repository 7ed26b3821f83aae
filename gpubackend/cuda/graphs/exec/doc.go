// SPDX-License-Identifier: Apache-2.0

// Package exec has the executable graphs, and makes graphs again on another device.
//
// The driver doesn't tell what an executable graph does. So for each there is a graph that does the
// same: an edition. It is the guest's own graph, until the guest changes that; only then is it
// copied. A graph that the guest destroys meanwhile is kept. So instantiating and launching cost
// nothing more, and a graph of which nothing is executable isn't noted at all.
//
//	exec.go      executable graphs: made, changed, destroyed
//	changes.go   what changes graphs, before which editions are copied
//	launched.go  which streams host functions of launched graphs hold
//	edition.go   editions, and which of their nodes are which
//	saved.go     what graphs are, so that they can be made again
//	restored.go  making them again
//	renewed.go   what the driver must look up again in what was made
//
// Handles have been looked up by the caller; what a restored record has is checked here and by
// package graphs.
package exec
