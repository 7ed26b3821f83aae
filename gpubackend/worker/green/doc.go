// SPDX-License-Identifier: Apache-2.0

// Package green is the guest's green contexts and the resources that it makes them of.
//
// # Who owns what
//
// The worker's loop owns Greens, which keep the resources: the guest has handles of them, so that
// the driver sees nothing but what it made itself. As CUDA has no function that frees a resource or
// a descriptor, asking again for what was asked for before gives what was given then. Resources go
// with the context that has them (Settle).
//
// # Who may lie
//
// Handles, flags and counts are the guest's; records that come back from it are never believed.
// How many resources, descriptors and green contexts there are is bounded.
package green
