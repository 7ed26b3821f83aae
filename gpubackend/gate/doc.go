// SPDX-License-Identifier: Apache-2.0

// Package gate is the memory through which an arbiter tells the workers of a VM whether they may
// give the GPU work, and through which they tell it what they have to do. While a VM is alone on
// its GPU a look at the gate is the read of one word.
//
// # Who owns what
//
// A device process makes the Page of its VM. It passes it on to the VM's workers, each of which
// has an entry of it until its process has ended, and to the arbiter. The gate's word is written by
// the arbiter; by the device process while there is no arbiter, or when its heartbeat has stopped.
// An entry is written by its worker, and by the device process when the worker has ended. Two event
// descriptors belong to a page: workers ring the bell when the arbiter has to look at their
// entries; the one called opened can be read for as long as the gate is open, so that a worker can
// sleep on it.
//
// # The order of things
//
// A worker first notes that it has work in flight, then looks at the gate. Whoever closes a gate
// first writes the word, then looks at the entries. So either the worker sees the closed gate, or
// the arbiter sees the work that came through.
//
// Who begins work at an open gate rings no bell, unless the word asks for it (Knock): the arbiter
// looks at the entries of those whose turn it is before it takes the turn away.
//
// # Who may lie
//
// Workers may: they can write anything to the page, and so can only harm their own VM, which is
// charged for what they claim. The memory is sealed, so that nobody can make it shorter.
package gate
