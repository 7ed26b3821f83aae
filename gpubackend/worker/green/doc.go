// SPDX-License-Identifier: Apache-2.0

// Package green has the guest's green contexts, and the resources from which it makes them.
//
// # Who owns what
//
// The worker's loop owns Greens, which keep the resources: the guest has only handles of them, so
// that the driver sees only what it made itself. CUDA has no function that frees a resource or a
// descriptor, so the same request gives the same result again. Resources end with the context that
// has them (Settle).
//
// # Who may lie
//
// Handles, flags and counts are the guest's; records that come back from it are never believed.
// How many resources, descriptors and green contexts there are is bounded.
package green
