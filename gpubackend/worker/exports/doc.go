// SPDX-License-Identifier: Apache-2.0

// Package exports has the objects that go to other processes of the guest through the device
// process: what this process offers, under a number of its own, and what it was handed because the
// guest's driver asked for it.
//
// # Who owns what
//
// The goroutine that receives messages calls Accept, so that nobody waits for a busy loop; the loop
// calls everything else. An object that was handed over is kept here, with its file, until Take.
// Files that are offered stay their owners'. What waits for Take goes along with a program that is
// saved; its files are had again from the workers that offer the memory (Join).
//
// # Who may lie
//
// The device process is believed. What it hands over comes from another worker, and may be
// anything: who takes it checks it. A guest that has objects handed over and doesn't name them is
// bounded. Who wrote a record, in what it says of objects that wait: its numbers are bounded, and
// memory is only what a worker of this VM offers.
package exports
