// SPDX-License-Identifier: Apache-2.0

package chip

import (
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

// DefaultUUID is that of a device that was given none.
var DefaultUUID = [16]byte([]byte("ParacudaSoftGPU1"))

// Identity is what one device has of its own.
type Identity struct {
	UUID            [16]byte
	Memory          uint64 // bytes
	Base, Window    uint64 // its addresses
	Multiprocessors int
}

// Snapshot describes a device.
func (d *Identity) Snapshot() *gpubackend.Snapshot {
	s := wire.SnapshotDevice{
		Uuid: d.UUID, LuidResult: uint32(gpubackend.NotSupported), TotalMemory: d.Memory,
	}
	copy(s.Name[:], Name)
	d.fillAttributes(&s)
	return &gpubackend.Snapshot{
		Snapshot: wire.Snapshot{
			DriverVersion: driverVersion, Devices: 1, WindowBase: d.Base, WindowBytes: d.Window,
		},
		Device: []wire.SnapshotDevice{s},
	}
}

// Visible tells whether a process with that environment sees the device: CUDA_VISIBLE_DEVICES is a
// list of numbers and UUIDs that ends at the first which names nothing.
func Visible(env []string, uuid [16]byte) bool {
	list, found := "", false
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "CUDA_VISIBLE_DEVICES="); ok {
			list, found = value, true
		}
	}
	if !found {
		return true
	}
	first, _, _ := strings.Cut(list, ",")
	first = strings.TrimSpace(first)
	return first == "0" || len(first) > len("GPU-") && strings.HasPrefix(hostgpus.UUID(uuid), first)
}
