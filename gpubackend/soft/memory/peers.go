// SPDX-License-Identifier: Apache-2.0

package memory

import "github.com/paracuda/paracuda/gpubackend"

// Connect gives kernels of one GPU access to the memory of another, or takes it back. It counts:
// access ends when it was taken back as often as it was given.
func (m *Memory) Connect(from, of int, reaches bool) {
	m.peers.Connect(from, of, reaches)
}

// PoolAccess implements gpubackend.Driver. A pool is ordinary memory of its GPU, so access to a
// pool is access to all of the GPU's memory.
func (m *Memory) PoolAccess(device, of, access uint64) gpubackend.Result {
	for _, gpu := range []uint64{device, of} {
		if result := m.options.Contexts.CheckDevice(gpu); result != gpubackend.Success {
			return result
		}
	}
	if device == of {
		return gpubackend.InvalidDevice
	}
	if !m.options.Contexts.MayReach(int(device), int(of)) {
		return gpubackend.PeerAccessUnsupported
	}
	m.Connect(int(device), int(of), access != gpubackend.AccessNone)
	return gpubackend.Success
}
