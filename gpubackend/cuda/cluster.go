// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
)

const (
	launchShapeBytes  = 32 // grid, block, shared memory, padding
	launchConfigBytes = 56 // CUlaunchConfig
	attributesOffset  = 40 // in it
	attributeCount    = 48
)

// OccupancyMaxActiveClusters asks the driver how many clusters of a launch are resident at a time.
func (d *Device) OccupancyMaxActiveClusters(f gpubackend.Function, config []byte) (uint64, gpubackend.Result) {
	return d.askCluster(symOccupancyMaxActiveClusters, f, config)
}

// OccupancyMaxPotentialClusterSize asks the driver for the largest cluster that a launch may have.
func (d *Device) OccupancyMaxPotentialClusterSize(f gpubackend.Function, config []byte) (uint64, gpubackend.Result) {
	return d.askCluster(symOccupancyMaxPotentialClusterSize, f, config)
}

func (d *Device) askCluster(s symbol, f gpubackend.Function, config []byte) (uint64, gpubackend.Result) {
	if len(config) < launchShapeBytes || len(config) > launchShapeBytes+maxLaunchAttributes*launchAttributeSize {
		return 0, gpubackend.InvalidValue
	}
	attributes := config[launchShapeBytes:]
	if r := checkAttributes(attributes); r != gpubackend.Success {
		return 0, r
	}
	if hasEvent(attributes) {
		return 0, gpubackend.InvalidValue // the guest's own handle: nobody has translated it
	}
	b := allocate(launchConfigBytes + len(attributes))
	defer b.free()
	c := b.bytes()
	copy(c, config[:launchShapeBytes-4])
	copy(c[launchConfigBytes:], attributes)
	binary.LittleEndian.PutUint64(c[attributesOffset:], b.address()+launchConfigBytes)
	binary.LittleEndian.PutUint32(c[attributeCount:], uint32(len(attributes)/launchAttributeSize))
	r := d.call(s, d.out(0), uint64(f), b.address())
	return uint64(int64(int32(uint32(d.value(0))))), d.failed(r)
}

// hasEvent says whether a launch attribute holds an event.
func hasEvent(attributes []byte) bool {
	for ; len(attributes) > 0; attributes = attributes[launchAttributeSize:] {
		switch binary.LittleEndian.Uint32(attributes) {
		case 7, 12: // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, _LAUNCH_COMPLETION_EVENT
			return true
		}
	}
	return false
}
