// SPDX-License-Identifier: Apache-2.0

// Package turns decides which VMs may give a GPU work, and for how long. It is only the arbiter's
// policy: it has no clock, no goroutine and no descriptor. Its owner tells it what happens and
// when, asks it for the gates that change, and calls it again at the deadline that it names. So
// tests run hours of a thousand VMs in a second.
//
// # The rules
//
//   - The unit is the VM. All its processes have their turn together, on all its GPUs at once.
//   - Virtual time: a VM is charged for the time that it held its GPUs, divided by its weight. The
//     waiting VM that was charged least is next. What a VM held beyond its turn was charged like
//     the rest, so it waits longer for the next one: that is its debt.
//   - A VM that wakes up begins at the others' virtual time, a turn earlier at most: it can't save
//     up what it didn't use. A VM that leaves in debt and comes back is still in debt, and one that
//     comes by another name each time is behind those who wait.
//   - A limit on time is a bucket that fills at that rate and empties as the VM is charged.
//   - A turn ends when its time is over and somebody waits, when the VM has been idle for a moment,
//     or when a VM of the latency class has work and is not ahead of its share.
//   - A VM whose turn is over has its gate closed. The next turn begins when its work has ended;
//     the VM that comes next is told before, so that it is awake. A VM of the latency class begins
//     at once: the driver gives it a slice of its own before long work is over. When nobody waits
//     any more, the VM that it interrupted goes on, without ending its work first.
//   - Work that doesn't end in time loses the GPU: others get their turns beside it, and it pays.
//     If more of it waits, the VM gets turns like the others: what is on the GPU may wait for that.
//     Those others have their turns at the same time, as the driver gives each VM the same part:
//     if they came one after the other, they would share one part, and that work would have as
//     much as all of them together. A VM among them that is a turn ahead of the rest waits. When
//     that work has ended, one of them goes on alone.
//   - A VM that waits gets its GPUs as soon as they are free. They are kept, and charged for, only
//     for a VM that is away for a moment:
//     if it is behind in its share, as programs are that wait for their kernels: for an eighth at
//     most of the time that it works between two rests, and only while its rests are shorter;
//     if it is late for once inside its turn, as a change from VM to VM costs more;
//     if it is of the latency class, at each rest between the kernels of an answer.
//   - Changes cost the GPU time: turns whose length nobody sets are long while few VMs want it.
//
// # Who owns what
//
// One goroutine owns a Scheduler. A VM is a number that only its Scheduler gives out.
//
// # Who may lie
//
// Whoever reports for a VM may lie about it. A VM that claims to have work for ever gets no more
// than its turns; one that claims to be idle gets none; one that never says that its work has ended
// loses the GPU after two turns, and is charged for all that time. The names and policies come from
// the operator.
//
// # Files
//
//	what happens        scheduler.go vm.go
//	who is next         step.go, with patience.go (GPUs that are kept) beside.go (endless work)
//	what the owner gets tell.go
//	policies            policy.go keys.go
//	VMs that left       debts.go
package turns
