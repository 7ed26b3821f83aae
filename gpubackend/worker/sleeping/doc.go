// SPDX-License-Identifier: Apache-2.0

// Package sleeping is what the worker's loop does when there is nothing to do. It looks again: for
// a short time in a loop that touches almost nothing, then in turns of the worker's loop, for as
// long as the policy lets it poll. After that it naps while a call waits for the GPU, which has no
// descriptor to sleep on. Otherwise it sleeps on its descriptors.
//
//	rest.go      how long, by what is under way
//	linger.go    the short time
//	quiet.go     guesses when a wait will be over
//	files.go     what it sleeps on
//	pause_*.go   the processor's hint
//
// # Naps and sleeps
//
// A worker that naps looks at the ring by itself: the guest need not wake it for the next command.
// One that sleeps says so in the arena before it looks for the last time, so that the guest's
// kernel kicks it (docs/protocol.md).
//
// # Who owns what
//
// The worker's loop owns a Sleeping and its Files. Any goroutine may call Wake of Files.
//
// # Who may lie
//
// The guest, about whether there is work: then its worker looks in vain, or sleeps although there
// is some.
package sleeping
