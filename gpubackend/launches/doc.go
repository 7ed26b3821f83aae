// SPDX-License-Identifier: Apache-2.0

// Package launches is the policy for consecutive kernel launches: how many go to the driver at
// once, where a batch of them ends, and which batches are worth a graph of their own.
//
// A program repeats what it launches. If it is cut into the same batches each time, a device knows
// a batch that it has seen before, and replays it as a graph for a third of what the launches cost
// (docs/performance.md). So what is launched decides where a batch ends, not when it is launched
// (Ends), and a device finds the batch again by the same hash (Cache). Functions, shapes and the
// sizes of parameters must be the same; the parameters themselves are patched.
//
// # Who owns what
//
// The worker cuts batches; the device keeps a Cache, with the graphs that it has made. The hash of
// a launch is computed once, by whoever needs it first, and kept in the launch. A Cache and a
// launch each belong to one goroutine at a time.
//
// # Who may lie
//
// The guest chooses what is launched, and could find shapes with the same hash: so the shapes
// themselves are compared, and what is remembered is bounded.
package launches
