// SPDX-License-Identifier: Apache-2.0

// Package worker executes the commands of one guest process. A worker is a process of its own: it has the guest
// process's CUDA context, serves its virtqueue and reads its command ring (docs/protocol.md), so that no command
// crosses a second process and a fault in it is that guest process's alone.
//
// # Who owns what
//
// One goroutine, locked to its thread, owns the queue, the arena, the objects and the Driver, and runs loop. A
// second one reads the control connection to the device process and hands over whole messages; the loop
// answers them between commands. Two more come into play when the loop is held up inside a call of the driver's, which may
// wait for a stream that waits for the guest: one looks after host functions (hostFuncs says what it shares with the loop),
// the other reports a call that never ends (watchdog). Nothing else is shared.
//
// # Who may lie
//
// The guest process writes the arena and may write anything; the guest's kernel writes the rings, and vouches
// for the pages it maps. Words are copied once and checked, handles are looked up, ranges are checked against the
// arena or the MAP chain they name. Device addresses are the Driver's to judge. The device process is believed.
//
// # Waiting
//
// The loop never waits inside a call: a call that waits (synchronize, a copy through the mover) becomes a waiter,
// polled between commands, so that it delays no other thread of the guest process. With nothing to do the loop polls
// for Policy.SpinHostUs. After that it naps for as long as a call waits for the GPU, which has no descriptor to sleep on:
// the guest need not wake it for the next command. Else, and when that has gone on for long, it sleeps on its descriptors.
package worker
