// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"math"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/environment"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/pcie"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Open initialises the driver with the guest's CUDA variables and describes its devices, unless
// Warm has done it.
func (d *Device) Open(env []string) (*gpubackend.Inventory, gpubackend.Result) {
	if s := d.inventory; s != nil {
		d.inventory = nil
		for i := range s.Device {
			d.describeLink(d.gpus.At(i), &s.Device[i])
			d.describeShare(d.gpus.At(i), &s.Device[i])
		}
		return s, gpubackend.Success
	}
	if err := environment.Apply(env); err != nil {
		d.log.WithError(err).Error("set the variables that the driver reads")
		return nil, gpubackend.InvalidValue
	}
	if r := d.Init(); r != gpubackend.Success {
		d.log.WithError(r.Err()).Error("cuInit")
		return nil, r
	}
	n, r := d.DeviceGetCount()
	if r != gpubackend.Success {
		return nil, r
	}
	n = min(n, gpus.Max)
	if n == 0 {
		return nil, gpubackend.NoDevice
	}
	s := &gpubackend.Inventory{Device: make([]wire.InventoryDevice, n)}
	all := make([]gpus.GPU, n)
	for i := range s.Device {
		if r := d.describe(i, &all[i], &s.Device[i]); r != gpubackend.Success {
			return nil, r
		}
	}
	d.gpus.Set(all)
	for i := range all {
		s.Memory = append(s.Memory, all[i].Total)
	}
	s.Pair = d.pairs()
	hostgpus.DescribeWays(s.Device, s.Pair, d.options.Known)
	base, r := d.memoryRoom.Open()
	if r != gpubackend.Success {
		d.log.WithError(r.Err()).Error("reserve addresses for device memory")
		return nil, r
	}
	s.DriverVersion = min(d.DriverVersion(), driver.MaxVersion)
	s.Devices = uint32(n)
	s.WindowBase = base
	s.WindowBytes = uint64(n) * d.memoryRoom.WindowBytes()
	return s, gpubackend.Success
}

// describe fills in what is known of device i, and refuses one that this process must not use.
func (d *Device) describe(i int, g *gpus.GPU, s *wire.InventoryDevice) gpubackend.Result {
	dev, r := d.DeviceGet(i)
	if r != gpubackend.Success {
		return r
	}
	d.identify(dev, s)
	if s.TotalMemory, r = d.DeviceTotalMem(dev); r != gpubackend.Success {
		return r
	}
	if d.options.MemoryLimit != 0 {
		s.TotalMemory = min(s.TotalMemory, d.options.MemoryLimit)
	}
	for a := range s.Attribute {
		value, r := d.DeviceGetAttribute(a, dev)
		s.Attribute[a], s.AttributeResult[a] = value, int32(r)
	}
	if r := d.admit(i, s); r != gpubackend.Success {
		return r
	}
	*g = gpus.GPU{
		Native: dev, Total: s.TotalMemory, ID: ledger.ID(s.Uuid),
		Threads: uint64(s.Attribute[cudaabi.DeviceAttributeMultiprocessorCount]) *
			uint64(s.Attribute[cudaabi.DeviceAttributeMaxThreadsPerMultiprocessor]),
		ReadOnlyRegister: s.Attribute[cudaabi.DeviceAttributeReadOnlyHostRegisterSupported] == 1,
		Place:            hostgpus.Described(s).Place,
	}
	d.describeLink(g, s)
	d.describeShare(g, s)
	mask(s)
	return gpubackend.Success
}

// pairs describes how each device reaches the others. What the driver doesn't tell is 0.
func (d *Device) pairs() []wire.InventoryPair {
	n := d.gpus.Len()
	list := make([]wire.InventoryPair, n*n)
	for i := range list {
		from, to := i/n, i%n
		if from == to {
			continue
		}
		tell := func(attribute int) uint8 {
			value, r := d.DeviceGetP2PAttribute(attribute, d.gpus.At(from).Native,
				d.gpus.At(to).Native)
			if r != gpubackend.Success || value < 0 || value > math.MaxUint8 {
				return 0
			}
			return uint8(value)
		}
		list[i] = wire.InventoryPair{
			Access:      tell(cudaabi.DeviceP2PAttributeAccessSupported),
			Atomics:     tell(cudaabi.DeviceP2PAttributeNativeAtomicSupported),
			Arrays:      tell(cudaabi.DeviceP2PAttributeCUDAArrayAccessSupported),
			Performance: tell(cudaabi.DeviceP2PAttributePerformanceRank),
			Partial:     tell(cudaabi.DeviceP2PAttributeOnlyPartialNativeAtomicSupported),
		}
		atomic, r := d.DeviceGetP2PAtomics(d.gpus.At(from).Native, d.gpus.At(to).Native)
		list[i].Atomic, list[i].AtomicResult = atomic, uint16(r)
	}
	return list
}

// describeShare sets a device's total memory to what the VM may have of it.
func (d *Device) describeShare(g *gpus.GPU, s *wire.InventoryDevice) {
	if bound := d.options.Accounts.Account(g.ID).Bound(); bound != 0 {
		s.TotalMemory = min(s.TotalMemory, bound)
	}
}

// describeLink fills in how a device is connected to the host, which CUDA doesn't tell and NVML
// does.
func (d *Device) describeLink(g *gpus.GPU, s *wire.InventoryDevice) {
	folder := d.options.PCI
	if folder == "" {
		folder = pcie.Devices
	}
	l := pcie.Read(folder, g.Place)
	s.LinkGeneration, s.LinkWidth = l.Generation, l.Width
	s.LinkMaxGeneration, s.LinkMaxWidth = l.MaxGeneration, l.MaxWidth
	s.LinkOwnGeneration, s.PciClass = l.OwnGeneration, l.Class
}

// identify fills in the names. A LUID exists only on Windows, which its result says.
func (d *Device) identify(dev uint64, s *wire.InventoryDevice) {
	if d.DeviceGetName(s.Name[:], dev) == gpubackend.Success {
		s.Name[len(s.Name)-1] = 0
	}
	d.DeviceGetUUID(s.Uuid[:], dev)
	var r gpubackend.Result
	s.LuidMask, r = d.DeviceGetLUID(s.Luid[:], dev)
	s.LuidResult = uint32(r)
}

// admit refuses a GPU whose kernels would reach this process's own memory.
func (d *Device) admit(i int, s *wire.InventoryDevice) gpubackend.Result {
	if s.Attribute[cudaabi.DeviceAttributePageableMemoryAccess] == 1 && !d.options.AllowPageable {
		d.log.WithField("device", i).Error("GPU refused: its kernels reach all memory of the " +
			"process that launches them, so a guest could read and write the worker itself. " +
			"Turn HMM off with `options nvidia_uvm uvm_disable_hmm=1` in /etc/modprobe.d " +
			"and load nvidia_uvm again, or allow pageable access")
		return gpubackend.NotPermitted
	}
	if s.Attribute[cudaabi.DeviceAttributeCanUseHostPointerForRegisteredMem] == 0 {
		d.log.WithField("device", i).Warn("GPU maps registered host memory at other addresses: " +
			"pinned host memory of guests will not work")
	}
	return gpubackend.Success
}
