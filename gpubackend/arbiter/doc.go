// SPDX-License-Identifier: Apache-2.0

// Package arbiter shares a host's GPUs among its VMs. Device processes join with the page through
// which their workers are told whether they may give a GPU work (package gate); the policy is that
// of package turns; what is said on the socket is in package link.
//
// Workers keep to what their page says (package worker/admission). They ring its bell when they
// wait at a closed gate and when their work has ended; if the page asks for it, also when work
// begins.
//
// # Who owns what
//
// One goroutine, locked to its thread, owns the Scheduler, the members and their pages. It sleeps
// until a worker rings a bell, a turn is over, or another goroutine has something for it. A
// goroutine for each connection reads what is asked and has it done there.
//
// An arbiter that ends leaves the pages as they are. Device processes open their gates when the
// connection ends or the beat stops, and join again when there is an arbiter again.
//
// # Who may lie
//
// Workers, about what they have to do: their VM is charged for it. Bells that ring without end are
// not listened to for a moment. Who may connect may join and ask for any policy; only the
// arbiter's own user and root may change those of others. A policy in the arbiter's own
// configuration is stronger than what a device process asks for. The pace of requests and the
// connections of a user are bounded, so that nobody can hold up the turns by asking without end.
// How much memory a GPU has is the median of what members say. Which GPUs the host has, and how
// much of them is free, is believed of whoever has some chosen, for that VM alone.
//
// # Files
//
//	the loop      loop.go clock.go member.go (a VM in it) list.go (what is told of all)
//	connections   arbiter.go requests.go join.go
//	policy        terms.go (what holds of a VM's wishes) gpus.go (names of GPUs, their memory)
//	which GPUs    choose.go (for a VM that doesn't name them) exclusive.go
//	memory        residence.go (where VMs' memory is, and is to be)
//	warm workers  warm.go (how many VMs may keep)
package arbiter
