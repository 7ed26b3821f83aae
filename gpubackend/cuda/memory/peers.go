// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// ShareWith has kernels of one GPU reach all memory in the window of another, what is there and
// what will be, or has them do so no more. The driver's own peer access says nothing of memory that
// was made by virtual memory management, as this is.
func (m *Memory) ShareWith(from, of int, reaches bool) gpubackend.Result {
	h, peer := &m.heaps[of], m.gpus.At(from).Native
	segments := h.Segments()
	if !reaches {
		h.backing.peers = slices.DeleteFunc(h.backing.peers,
			func(p uint64) bool { return p == peer })
		h.backing.protect(segments, peer, gpubackend.AccessNone)
		return gpubackend.Success
	}
	done, r := h.backing.protect(segments, peer, gpubackend.AccessReadWrite)
	if r != gpubackend.Success {
		h.backing.protect(segments[:done], peer, gpubackend.AccessNone)
		return r
	}
	h.backing.peers = append(h.backing.peers, peer)
	return r
}

// protect sets a device's access to segments, and says how many it has gone through. What is
// another process's may be of a GPU that the device doesn't reach.
func (b *backing) protect(
	segments []devmem.Segment, device, access uint64,
) (done int, r gpubackend.Result) {
	for i, s := range segments {
		r := b.calls.MemSetAccess(s.Address, s.Bytes, device, access)
		if r != gpubackend.Success && !b.foreign[s.Address] {
			return i, r
		}
	}
	return len(segments), gpubackend.Success
}
