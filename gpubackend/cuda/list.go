// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"fmt"
	"os"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/pcie"
)

// List tells the host's GPUs in the order of their bus ids, as nvidia-smi does, or says why the
// driver can't be used. It initialises the driver.
func List() ([]hostgpus.GPU, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if err := os.Setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID"); err != nil {
		return nil, err
	}
	return list(DefaultLibrary)
}

func list(library string) ([]hostgpus.GPU, error) {
	d, err := driver.Open(library)
	if err != nil {
		return nil, fmt.Errorf("no CUDA driver: %w", err)
	}
	// It stays loaded: a driver that has been initialised has threads of its own.
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
	all := make([]hostgpus.GPU, n)
	for i := range all {
		if err := look(d, i, &all[i]).Err(); err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	for i := range all {
		all[i].Peers = peers(d, i, n)
	}
	return all, nil
}

// accessSupported is CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED.
const accessSupported = 2

// peers are the GPUs, of n, whose memory GPU i reaches, as far as the driver says.
func peers(d *driver.Driver, i, n int) (list []int) {
	from, r := d.DeviceGet(i)
	for j := 0; j < n && r == gpubackend.Success; j++ {
		to, known := d.DeviceGet(j)
		if j == i || known != gpubackend.Success {
			continue
		}
		can, known := d.DeviceGetP2PAttribute(accessSupported, from, to)
		if known == gpubackend.Success && can != 0 {
			list = append(list, j)
		}
	}
	return list
}

// look fills in what the driver says of GPU i.
func look(d *driver.Driver, i int, g *hostgpus.GPU) gpubackend.Result {
	device, r := d.DeviceGet(i)
	var name [256]byte
	if r == gpubackend.Success {
		r = d.DeviceGetName(name[:len(name)-1], device)
	}
	var uuid [16]byte
	if r == gpubackend.Success {
		r = d.DeviceGetUUID(uuid[:], device)
	}
	if r == gpubackend.Success {
		g.Memory, r = d.DeviceTotalMem(device)
	}
	if r == gpubackend.Success {
		g.Place, r = place(d, device)
	}
	g.Name, g.UUID = text(name[:]), hostgpus.UUID(uuid)
	return r
}

// place is where a GPU is on the bus.
func place(d *driver.Driver, device uint64) (a pcie.Address, r gpubackend.Result) {
	for _, field := range []struct {
		to        *uint32
		attribute int
	}{
		{&a.Domain, cudaabi.DeviceAttributePCIDomainID},
		{&a.Bus, cudaabi.DeviceAttributePCIBusID},
		{&a.Device, cudaabi.DeviceAttributePCIDeviceID},
	} {
		value, r := d.DeviceGetAttribute(field.attribute, device)
		if r != gpubackend.Success {
			return a, r
		}
		*field.to = uint32(value)
	}
	return a, gpubackend.Success
}

// text is what is before a NUL.
func text(name []byte) string {
	before, _, _ := bytes.Cut(name, []byte{0})
	return string(before)
}

// Name is what people call a GPU: its name, which may end with a NUL, and its memory.
func Name(name []byte, memory uint64) string {
	g := hostgpus.GPU{Name: text(name), Memory: memory}
	return g.String()
}
