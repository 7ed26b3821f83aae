// SPDX-License-Identifier: Apache-2.0

// Package launches queues kernels: one by one, many in one call of C, and launches that come again
// in the same order as graphs.
//
//	launches.go  plain launches, and what a guest may ask of one
//	replay.go    which launches are replayed, and what is known of them
//
// Functions and streams have been looked up by the caller. Parameters are the kernel's, attributes
// are copied and then checked. Nothing here allocates for a launch.
package launches
