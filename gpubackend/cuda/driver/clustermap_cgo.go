// SPDX-License-Identifier: Apache-2.0

package driver

// #include <malloc.h>
import "C"

import (
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
)

// clusterTable is the export table from which cuBLASLt learns how clusters fit the GPU.
var clusterTable = []byte{
	0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca,
}

const (
	clusterTableWords = 17
	clusterGet        = 4  // (first, second): allocates two arrays
	clusterFree       = 13 // (first, second)
)

// ClusterMap passes on two arrays of the driver's. All that is known of them is that they are
// allocated.
func (d Code) ClusterMap(first, second []byte) (uint64, gpubackend.Result) {
	words, r := d.exportTable(clusterTable, clusterTableWords)
	if r != gpubackend.Success {
		return 0, r
	}
	if r = d.callAt(cmem.Pointer(words[clusterGet]), d.out(0), d.out(1)); r != gpubackend.Success {
		return 0, r
	}
	a, b := d.value(0), d.value(1)
	n := min(copyAllocated(first, a), copyAllocated(second, b))
	d.callAt(cmem.Pointer(words[clusterFree]), a, b)
	return uint64(n), gpubackend.Success
}

// exportTable returns the words of a table of the driver's, whose first is its size. It must have
// at least n.
func (d Code) exportTable(id []byte, n int) ([]uint64, gpubackend.Result) {
	b := cmem.Copied(id, 0)
	defer b.Free()
	if r := d.call(symGetExportTable, d.out(0), b.Address()); r != gpubackend.Success {
		return nil, r
	}
	table := cmem.Pointer(d.value(0))
	if table == nil || uint32(*(*uint64)(table)) < uint32(8*n) {
		return nil, gpubackend.NotSupported
	}
	// SAFETY: the table says that it is this long, and the driver keeps it.
	return unsafe.Slice((*uint64)(table), n), gpubackend.Success
}

// copyAllocated copies as much of an allocation of the C library's as there is room for.
func copyAllocated(to []byte, address uint64) int {
	p := cmem.Pointer(address)
	n := min(len(to), int(C.malloc_usable_size(p)))
	if n == 0 {
		return 0
	}
	// SAFETY: the C library says that so much was allocated.
	return copy(to, unsafe.Slice((*byte)(p), n))
}
