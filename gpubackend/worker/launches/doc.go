// SPDX-License-Identifier: Apache-2.0

// Package launches executes kernel launches: it collects consecutive ones, so that the driver gets
// many at once (package launches has the policy).
//
// # Who owns what
//
// The worker's loop owns a Launcher. Launches are kept by stream: launches in different streams
// have no order, unless a command between them makes one, and before that the loop calls Flush. The
// exception is the legacy stream, which is ordered with all others. The loop also calls Flush
// before another context becomes current, before the ring's bytes, which hold the parameters, go
// back to the guest, and when there are no more commands.
//
// # Who may lie
//
// The guest writes all of a launch. Handles are looked up, sizes are checked against the command,
// and attributes are copied before they are checked; the driver judges shapes. Parameters stay in
// the ring until they are flushed: a guest that changes them meanwhile changes what its own kernel
// gets.
package launches
