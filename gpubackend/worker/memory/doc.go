// SPDX-License-Identifier: Apache-2.0

// Package memory is the guest's virtual memory management: addresses that it reserves, memory
// without an address, and which of that is mapped where, with which access. Memory can go to other
// processes of the guest and come from them (export.go).
//
// # Who owns what
//
// The worker's loop owns a Memory. Memory lasts as long as its handles and its mappings; the same
// memory that comes back to its process, or a second time, is the same here and counts once. The
// places that reservations and mappings take in the address space are counted in Places.
//
// # Who may lie
//
// Addresses and sizes are the guest's and are checked against what it has reserved: only a part of
// the address space can be named, which nothing else uses. Handles are looked up. What was handed
// over comes from another worker, with a size of its own: the driver checks the file.
//
// Before access is taken away or memory is unmapped, Ending has taken it back from the mover, and
// the work of the context is done.
package memory
