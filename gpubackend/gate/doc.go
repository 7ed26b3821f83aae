// SPDX-License-Identifier: Apache-2.0

// Package gate is the memory through which an arbiter tells the workers of a VM whether they may
// give the GPU work, and through which they tell it what work they have. While a VM is alone on its
// GPU, checking the gate is the read of one word.
//
// # Who owns what
//
// A device process makes the Page of its VM. It passes the page to the arbiter and to the VM's
// workers, each of which has an entry in it until its process has ended. The arbiter writes the
// gate's word; while there is none, or its heartbeat has stopped, the device process does. A worker
// writes its entry, and the device process clears it when the worker has ended. Two event
// descriptors belong to a page. Workers ring the bell when the arbiter has to look at their
// entries. The other, opened, is readable as long as the gate is open, so that a worker can sleep
// on it.
//
// # Order
//
// A worker first notes that it has work in flight, then looks at the gate. Whoever closes a gate
// first writes the word, then looks at the entries. So either the worker sees the closed gate, or
// the arbiter sees the work that came through.
//
// A worker that begins work at an open gate doesn't ring the bell, unless the word asks for it
// (Knock): before the arbiter ends a turn it looks at the entries.
//
// # The turn
//
// The arbiter writes the number of the turn, and how many turns had work that didn't end in time,
// so that a worker can count those that it had a part in. Nobody decides anything by them.
//
// # Who may lie
//
// Workers may: they can write anything to the page, but harm only their own VM, which is charged
// for what they claim. The memory is sealed, so that nobody can make it shorter.
package gate
