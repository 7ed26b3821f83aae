// SPDX-License-Identifier: Apache-2.0

// Package ledger counts the device memory that one VM has on each of its GPUs, against the bound
// that its owner has set, over all processes that hold some of it.
//
//	page.go          the memory that the processes share, in words (words_unsafe.go)
//	gpu.go           what it says of one GPU: take and give
//	account.go       a process's side: what it holds, by kind
//	host.go          what the processes have of the host's memory, by a bound of its own
//	audit.go         the device process's side: what the driver says that the processes use
//
// # Who owns what
//
// A device process makes the Page of its VM and passes it on to the VM's workers and mover, each of
// which has an entry of it. A process takes memory before the driver makes it, and gives it back
// after the driver has freed it. To take is one compare-and-swap of the sum against the bound, and
// makes no system call. What a process holds it knows by itself, and writes to its entry with each
// change. When a process has ended, the device process gives back what its entry says, and what is
// in entries that no process has.
//
// # Who may lie
//
// Workers may: they can write anything to the page, and ignore it. So no other VM relies on it, and
// nothing that is read from it is an address or an index. The device process keeps the bound of its
// own and writes it again and again. It compares the entries with what the GPU's driver says that
// each process uses, counts what the driver has beyond an entry as the entry's Other, and names the
// process to end when the driver has more for the VM than it may have (Audit).
//
// The memory is sealed, so that nobody can make it shorter.
package ledger
