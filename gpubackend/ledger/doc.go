// SPDX-License-Identifier: Apache-2.0

// Package ledger counts the device memory that one VM has on each of its GPUs, against the bound
// that its owner has set for all its processes together.
//
//	page.go          the memory that the processes share, in words
//	gpu.go           what it says of one GPU: take and give
//	account.go       a process's side: what it holds, by kind
//	host.go          what the processes have of the host's memory, by a bound of its own
//	audit.go         the device process's side: what the driver says that the processes use
//
// # Who owns what
//
// A device process makes the Page of its VM and passes it to the VM's workers and mover, each of
// which has an entry in it. A process takes memory here before the driver allocates it, and gives
// it back after the driver has freed it. Taking is one compare-and-swap of the sum against the
// bound, without a system call. A process keeps what it holds in its own memory, and writes it to
// its entry with each change. When a process has ended, the device process gives back what its
// entry says, and what is in entries that no process has.
//
// # Who may lie
//
// Workers may: they can write anything to the page, and ignore it. So no other VM relies on it, and
// nothing that is read from it is an address or an index. The device process has its own copy of
// the bound and writes it again and again. It compares the entries with what each process uses
// according to the GPU's driver, counts what the driver has beyond an entry as the entry's Other,
// and names the process to end when the driver has more for the VM than it may have (Audit).
//
// The memory is sealed, so that nobody can make it shorter.
package ledger
