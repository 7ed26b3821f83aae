// SPDX-License-Identifier: Apache-2.0

// Package memory has the guest's virtual memory management: addresses that it reserves, memory
// without an address, and which memory is mapped where, with which access. Memory can go to other
// processes of the guest, and come from them (export.go). What isn't shared with them can be made
// again in another worker (saved.go).
//
// # Who owns what
//
// The worker's loop owns a Memory. Memory lasts as long as its handles and its mappings; memory
// that comes back to its own process, or comes twice, is recognised and counts once. The places
// that reservations and mappings take in the address space are counted in Places.
//
// # Who may lie
//
// Addresses and sizes are the guest's and are checked against what it has reserved: they must lie
// in a part of the address space that nothing else uses. Handles are looked up. What was handed
// over comes from another worker, and its size may be wrong: the driver checks the file.
//
// Before access is taken away or memory is unmapped, Ending has taken it back from the mover, and
// the work of the context is done.
package memory
