// SPDX-License-Identifier: Apache-2.0

// Package mapleave decides on what a worker maps of its guest's memory. The kernel has a worker's
// calls wait that map a descriptor from sandbox.AskedFrom on. A Decider gets them, asks a Policy,
// and gives the worker the file that the descriptor stands for, or refuses the call. The worker can
// neither read, copy nor close such a descriptor (package sandbox). It can still send it over a
// socket: docs/threat-model.md says what is missing. A worker on the software GPU asks for files in
// memory of its own in the same way: the Policy has them made.
//
// # Who owns what
//
// A Decider has the listener of one worker's filter, and a goroutine (Serve) until the worker has
// ended, or until Close. Several processes may have the listener, one after the other: a call that
// one has received and not answered before it died waits until its thread gets a signal. The worker
// sees to that (virtqueue/asked). While nobody has the listener calls fail; while one
// has it and doesn't serve, they wait.
//
// # Who may lie
//
// The worker, in all numbers of a call, and by calling as often as it likes: it waits for each
// answer. What is decided on are copies of registers, which nobody changes afterwards. Between the
// decision and the mapping the worker's descriptor may change its file only by another decision: a
// number must stand for one file for as long as the worker lives (package numbering).
package mapleave
