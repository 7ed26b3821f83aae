// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// ShareWith gives kernels of one GPU access to all memory in the window of another, now and later,
// or takes it back. It counts: access ends when it was taken back as often as it was given. The
// driver's own peer access doesn't cover memory of virtual memory management, as this is.
func (m *Memory) ShareWith(from, of int, reaches bool) gpubackend.Result {
	return m.peers.Connect(from, of, reaches)
}

// connect is ShareWith without counting.
func (m *Memory) connect(from, of int, reaches bool) gpubackend.Result {
	if !reaches {
		m.unshare(from, of)
		return gpubackend.Success
	}
	return m.share(from, of)
}

func (m *Memory) share(from, of int) gpubackend.Result {
	b, peer := m.heaps[of].backing, m.gpus.At(from).Native
	segments := m.heaps[of].Segments()
	done, r := b.protect(segments, peer, gpubackend.AccessReadWrite)
	if r != gpubackend.Success {
		b.protect(segments[:done], peer, gpubackend.AccessNone)
		return r
	}
	b.peers = append(b.peers, peer)
	return r
}

func (m *Memory) unshare(from, of int) {
	b, peer := m.heaps[of].backing, m.gpus.At(from).Native
	b.peers = slices.DeleteFunc(b.peers, func(p uint64) bool { return p == peer })
	b.protect(m.heaps[of].Segments(), peer, gpubackend.AccessNone)
}

// PoolAccess gives a GPU a pool of another's. Pools are in the window, like all other allocations:
// the GPU gets access to the window.
func (m *Memory) PoolAccess(device, of, access uint64) gpubackend.Result {
	from, ok := m.gpus.Find(device)
	to, also := m.gpus.Find(of)
	if !ok || !also || from == to {
		return gpubackend.InvalidDevice
	}
	return m.ShareWith(from, to, access != gpubackend.AccessNone)
}

// protect sets a device's access to segments, and says how many it has gone through. Memory of
// another process may be on a GPU that the device doesn't reach. Who reaches memory of CreateMemory
// the guest says for each of its mappings.
func (b *backing) protect(
	segments []devmem.Segment, device, access uint64,
) (done int, r gpubackend.Result) {
	for i, s := range segments {
		if b.created[s.Address] != nil {
			continue
		}
		r := b.calls.MemSetAccess(s.Address, s.Bytes, device, access)
		if r != gpubackend.Success && !b.foreign[s.Address] {
			return i, r
		}
	}
	return len(segments), gpubackend.Success
}
