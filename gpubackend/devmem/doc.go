// SPDX-License-Identifier: Apache-2.0

// Package devmem hands out device memory: it is the allocator behind cuMemAlloc on both devices.
//
// A Heap owns a window of addresses, the same on every run, and asks its Backing to put memory
// under parts of it: package cuda by cuMemCreate and cuMemMap, package soft by a file in memory.
// Such a part is a segment: a multiple of Granularity, mapped and unmapped as a whole. Allocations
// of more than LargestShared bytes get a segment of their own; smaller ones are cut from shared
// segments of SharedSegment bytes, which cost one mapping for many allocations. Shared segments
// that become empty go back to the backing. One of them is kept, so that a program that allocates
// and frees in a loop maps nothing.
//
// The limit bounds what is mapped, and so also what rounding and fragmentation cost. Near the limit
// shared segments become smaller, down to Granularity.
//
// Segments can leave, and return to the same addresses (away.go): the caller keeps what was in
// them. A heap can be saved, and made again in another process with everything where it was
// (saved.go).
//
// All operations take time logarithmic in the number of allocations, and where an allocation ends
// up depends on the sequence of calls alone. A Heap belongs to one goroutine.
package devmem
