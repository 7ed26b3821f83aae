// SPDX-License-Identifier: Apache-2.0

package launches

import "github.com/paracuda/paracuda/gpubackend"

// LaunchAll implements gpubackend.Driver.
func (x *Launches) LaunchAll(ls []gpubackend.Launch) (queued int, result gpubackend.Result) {
	for i := range ls {
		if result := x.Launch(&ls[i]); result != gpubackend.Success {
			return i, result
		}
	}
	return len(ls), gpubackend.Success
}

// LaunchDevices implements gpubackend.Driver. Kernels can't ask this device about others, as its
// attribute COOPERATIVE_MULTI_DEVICE_LAUNCH says.
func (*Launches) LaunchDevices([]gpubackend.Launch, uint32) gpubackend.Result {
	return gpubackend.NotSupported
}
