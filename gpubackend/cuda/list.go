// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"fmt"
	"os"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/nvlinks"
	"github.com/paracuda/paracuda/gpubackend/cuda/nvml"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// List lists the host's GPUs in the order of their bus ids, as nvidia-smi does, or says why the
// driver can't be used. It initialises the driver.
func List() ([]hostgpus.GPU, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if err := os.Setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID"); err != nil {
		return nil, err
	}
	gpus, err := list(DefaultLibrary)
	if err != nil {
		return nil, err
	}
	// Without NVML, or with a version before NVLink, the list has no NVLinks.
	_ = nvlinks.Add(nvml.DefaultLibrary, gpus)
	return gpus, nil
}

func list(library string) ([]hostgpus.GPU, error) {
	d, err := driver.Open(library)
	if err != nil {
		return nil, fmt.Errorf("no CUDA driver: %w", err)
	}
	// The library stays loaded: an initialised driver has threads.
	if err := d.Init().Err(); err != nil {
		return nil, fmt.Errorf("cuInit: %w", err)
	}
	n, r := d.DeviceGetCount()
	if r == gpubackend.Success && n == 0 {
		r = gpubackend.NoDevice
	}
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("count the GPUs: %w", err)
	}
	all, handles := make([]hostgpus.GPU, n), make([]uint64, n)
	for i := range all {
		if handles[i], r = d.DeviceGet(i); r == gpubackend.Success {
			all[i], r = look(d, handles[i])
		}
		if err := r.Err(); err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	for i := range all {
		all[i].Peers = peers(d, handles, i)
	}
	return all, nil
}

// look is what the driver says of a GPU.
func look(d *driver.Driver, device uint64) (hostgpus.GPU, gpubackend.Result) {
	var s wire.InventoryDevice
	r := d.DeviceGetName(s.Name[:len(s.Name)-1], device)
	if r == gpubackend.Success {
		r = d.DeviceGetUUID(s.Uuid[:], device)
	}
	if r == gpubackend.Success {
		s.TotalMemory, r = d.DeviceTotalMem(device)
	}
	for _, a := range []int{cudaabi.DeviceAttributePCIDomainID, cudaabi.DeviceAttributePCIBusID,
		cudaabi.DeviceAttributePCIDeviceID} {
		if r == gpubackend.Success {
			s.Attribute[a], r = d.DeviceGetAttribute(a, device)
		}
	}
	return hostgpus.Described(&s), r
}

// peers are the GPUs whose memory GPU i reaches, as far as the driver says.
func peers(d *driver.Driver, handles []uint64, i int) (list []int) {
	for j, other := range handles {
		if j == i {
			continue
		}
		can, r := d.DeviceGetP2PAttribute(cudaabi.DeviceP2PAttributeAccessSupported, handles[i],
			other)
		if r == gpubackend.Success && can != 0 {
			list = append(list, j)
		}
	}
	return list
}
