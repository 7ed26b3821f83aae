// SPDX-License-Identifier: Apache-2.0

package chip

import (
	"slices"
	"strconv"
	"strings"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

const (
	// Name is the device's name.
	Name = "Paracuda Software GPU"
	// driverVersion is the CUDA version whose driver this device behaves like.
	driverVersion = cudaabi.DriverVersion
)

// DefaultUUID is the UUID of a device that was given none.
var DefaultUUID = [16]byte([]byte("ParacudaSoftGPU1"))

// NumberedUUID is the UUID of one of several GPUs: the first has DefaultUUID.
func NumberedUUID(gpu int) [16]byte {
	u := DefaultUUID
	u[len(u)-1] += byte(gpu)
	return u
}

// Identity is what differs from GPU to GPU.
type Identity struct {
	UUID            [16]byte
	Bus             int32  // its PCI bus
	Memory          uint64 // bytes
	Multiprocessors int
}

// Inventory describes the GPUs of a process, whose memory is at these addresses. GPUs that are
// apart aren't joined by links, and don't reach the memory of one another.
func Inventory(base, window uint64, gpus []Identity, apart bool) *gpubackend.Inventory {
	s := &gpubackend.Inventory{
		Inventory: wire.Inventory{
			DriverVersion: driverVersion, Devices: uint32(len(gpus)), WindowBase: base,
			WindowBytes: window,
		},
		Device: make([]wire.InventoryDevice, len(gpus)),
	}
	for i := range gpus {
		gpus[i].describe(&s.Device[i])
		for j := range gpus {
			s.Pair = append(s.Pair, way(i == j || apart))
		}
	}
	if !apart {
		hostgpus.DescribeWays(s.Device, s.Pair, joined(s.Device))
	}
	return s
}

// way describes one GPU's access to the memory of another, which is memory of the same process. It
// has none to its own as another's.
func way(none bool) (p wire.InventoryPair) {
	if !none {
		p.Access, p.Atomics, p.Arrays, p.Atomic = 1, 1, 1, atomics
	}
	return p
}

func (d *Identity) describe(s *wire.InventoryDevice) {
	s.Uuid, s.LuidResult, s.TotalMemory = d.UUID, uint32(gpubackend.NotSupported), d.Memory
	copy(s.Name[:], Name)
	d.fillAttributes(s)
}

// Visible tells which GPUs a process with that environment sees, and in which order.
// CUDA_VISIBLE_DEVICES lists numbers and beginnings of UUIDs, and ends at the first entry that
// names no GPU. A list that names a GPU twice shows none.
func Visible(env []string, uuids [][16]byte) (gpus []int) {
	list, found := "", false
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "CUDA_VISIBLE_DEVICES="); ok {
			list, found = value, true
		}
	}
	if !found {
		for i := range uuids {
			gpus = append(gpus, i)
		}
		return gpus
	}
	for entry := range strings.SplitSeq(list, ",") {
		i := named(strings.TrimSpace(entry), uuids)
		if i < 0 {
			break
		}
		if slices.Contains(gpus, i) {
			return nil
		}
		gpus = append(gpus, i)
	}
	return gpus
}

// named is the GPU that an entry of the list means, or -1.
func named(entry string, uuids [][16]byte) int {
	if n, err := strconv.ParseUint(entry, 10, 16); err == nil && n < uint64(len(uuids)) {
		return int(n)
	}
	found := -1
	for i, u := range uuids {
		if len(entry) > len("GPU-") && strings.HasPrefix(hostgpus.UUID(u), entry) {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}
