// SPDX-License-Identifier: Apache-2.0

// Package arbiter shares a host's GPUs among its VMs. Device processes join with the page through
// which their workers are told whether they may give a GPU work (package gate); the policy is in
// package turns; the socket's messages are in package link.
//
// Workers obey their page (package worker/admission). They ring its bell when they wait at a closed
// gate and when their work has ended; if the page asks for it, also when work begins.
//
// # Who owns what
//
// One goroutine, locked to its thread, owns the Scheduler, the members and their pages. It sleeps
// until a worker rings a bell, a turn is over, or another goroutine has something for it. A
// goroutine for each connection reads requests and passes them to the loop.
//
// When an arbiter ends, the pages stay as they are. Device processes open their gates when the
// connection ends or the beat stops, and join again when there is an arbiter again.
//
// # Who may lie
//
// Workers, about what they have to do: their VM is charged for it. Bells that ring without end are
// ignored for a moment. Whoever may connect may join and ask for any policy; only the arbiter's own
// user and root may change those of others. A policy in the arbiter's own configuration overrides
// what a device process asks for. The pace of requests and the connections of a user are bounded,
// so that nobody can hold up the turns by asking without end. How much memory a GPU has is the
// median of what members say. Whoever asks for a choice of GPUs is believed about which GPUs the
// host has and how much of them is free; a lie changes the choice for that VM only.
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
