// SPDX-License-Identifier: Apache-2.0

// Package admission decides when a worker gives the GPU work: it passes the gate of its VM (package
// gate), and bounds how much each stream has at a time.
//
// # The rules
//
//   - While the gate is free nothing is counted: Begin reads one word for each batch of commands.
//   - Otherwise each command that gives the GPU work is to be admitted first. At a closed gate the
//     ring stops there, and what is behind it waits in the guest's memory.
//   - A stream has so much predicted work on the GPU as the gate says, but at least two submissions
//     of it. The prediction is what a kernel of that size, or that graph, took before: fences in
//     the streams tell. A stream that has enough stops the ring, too.
//   - That is not for ever: kernels of two streams may wait for each other, and the second one may
//     be behind the stop. When nothing has ended for long, a few more submissions pass.
//   - Work is in flight until all fences have passed and the driver says that all is done. Only
//     then the worker leaves the gate. What came through while the gate was free is in flight, too,
//     as soon as the gate isn't.
//
// # What is measured
//
// GPU time is the time in which work is in flight. While the gate is free nobody asks the driver
// for it all the time: then short pauses, for which the worker polls its ring, count as well.
//
// # Who owns what
//
// The worker's loop owns an Admission, with the worker's side of the gate.
//
// # Who may lie
//
// The guest, about everything: with kernels that take now long and now short it can make
// predictions wrong. Then its turn ends late, and its VM is charged for that. The tables are
// bounded.
package admission
