// SPDX-License-Identifier: Apache-2.0

// Package contexts owns the contexts of software GPUs: which there are, which is current, what each
// is set to, and when each ends. What is in a context (streams, memory, code, …) belongs to the
// other rooms, which ask for the current context and are told when one ends (Hooks); an object that
// ends with its context is Owned.
//
// A context is a fault domain of the scheduler: when it fails, nothing more of it is run. A green
// context is a part of the primary context.
//
// Files: contexts.go (what they are, and finding one), peers.go (who reaches whose memory),
// calls.go, limits.go and banks.go (the driver's functions).
//
// Handles and numbers come from the guest and are looked up. All belongs to the device's goroutine,
// but for what a scheduler.Domain guards itself.
package contexts
