// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/launches"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// OccupancyMaxActiveClusters asks the driver how many clusters of a launch are resident at a time.
func (x *Code) OccupancyMaxActiveClusters(
	f gpubackend.Function, config []byte,
) (uint64, gpubackend.Result) {
	return x.askCluster(x.calls.MaxActiveClusters, f, config)
}

// OccupancyMaxPotentialClusterSize asks the driver for the largest cluster that a launch may have.
func (x *Code) OccupancyMaxPotentialClusterSize(
	f gpubackend.Function, config []byte,
) (uint64, gpubackend.Result) {
	return x.askCluster(x.calls.MaxPotentialClusterSize, f, config)
}

func (x *Code) askCluster(
	ask func(gpubackend.Function, cmem.Memory) (int32, gpubackend.Result), f gpubackend.Function,
	config []byte,
) (uint64, gpubackend.Result) {
	const most = wire.LaunchShapeSize + driver.MaxLaunchAttributes*cudaabi.LaunchAttributeSize
	if len(config) < wire.LaunchShapeSize || len(config) > most {
		return 0, gpubackend.InvalidValue
	}
	attributes := config[wire.LaunchShapeSize:]
	if r := launches.CheckAttributes(attributes); r != gpubackend.Success {
		return 0, r
	}
	if hasEvent(attributes) {
		return 0, gpubackend.InvalidValue // a handle of the guest's, which isn't the driver's
	}
	b := cmem.Allocate(cudaabi.LaunchConfigSize + len(attributes))
	defer b.Free()
	c := cudaabi.LaunchConfig(b.Bytes())
	copy(c, config[:wire.LaunchShapePadOffset])
	copy(c[cudaabi.LaunchConfigSize:], attributes)
	c.SetAttrs(b.Address() + cudaabi.LaunchConfigSize)
	c.SetNumAttrs(uint32(len(attributes) / cudaabi.LaunchAttributeSize))
	n, r := ask(f, b)
	return uint64(int64(n)), x.contexts.Failed(r)
}

// hasEvent says whether a launch attribute holds an event.
func hasEvent(attributes []byte) bool {
	for ; len(attributes) > 0; attributes = attributes[cudaabi.LaunchAttributeSize:] {
		switch cudaabi.LaunchAttribute(attributes).ID() {
		case cudaabi.LaunchAttributeProgrammaticEvent, cudaabi.LaunchAttributeLaunchCompletionEvent:
			return true
		}
	}
	return false
}

// ClusterMap passes on how clusters fit the GPU.
func (x *Code) ClusterMap(first, second []byte) (uint64, gpubackend.Result) {
	n, r := x.calls.ClusterMap(first, second)
	return n, x.contexts.Failed(r)
}
