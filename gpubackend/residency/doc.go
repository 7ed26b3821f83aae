// SPDX-License-Identifier: Apache-2.0

// Package residency decides which VMs have their memory on a GPU that is too small for all of them,
// and for how long: whole VMs take turns, moved out to the host's memory and in again. It is only a
// policy: it has no clock, no goroutine and no descriptor. Its owner tells it what happens and
// when, carries out the orders that it gives, and calls it again at the deadline that it names.
//
// # The rules
//
//   - A VM that moves has as much memory as it was granted, and no more. What others have, or are
//     guaranteed, is never granted; VMs with a guarantee, and those that aren't told to move, stay.
//   - A VM waits if it is out and has work, or is in and wants more than it was granted. Virtual
//     time: a VM that is in and doesn't wait is charged for the time, divided by its weight, as
//     long as another one waits. The waiting VM that was charged least is next. No other goes
//     before it, unless there will never be room for it.
//   - Room for it is made by moving others out, those first that have nothing to do or wait
//     themselves, then those that were charged most, and none that was charged less than the VM
//     that comes.
//   - A switch is the time in which VMs move. After it there is none for ten times as long, and for
//     MinTurn: so less than a tenth of the time is spent with moving.
//   - A VM that can't be moved out, because its work doesn't end, stays in, and isn't asked again
//     for ten times as long as that took. If then there is no room for more memory that a VM wants,
//     it is denied; a VM that is out waits on.
//
// # Who owns what
//
// One goroutine owns a Scheduler, of one GPU.
//
// # Who may lie
//
// Whoever reports for a VM may. One that says that it needs more than there is isn't moved in; one
// that says that it always has work gets no more than its turns; one that doesn't carry out an
// order is taken to have failed after OrderLimit.
package residency
