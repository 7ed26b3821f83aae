// SPDX-License-Identifier: Apache-2.0

package launches

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
)

// LaunchDevices queues a kernel on several devices by one call of the driver.
func (x *Launches) LaunchDevices(ls []gpubackend.Launch, flags uint32) gpubackend.Result {
	if len(ls) == 0 || len(ls) > command.MaxLaunchDevices {
		return gpubackend.InvalidValue
	}
	offsets := make([][]uint32, len(ls))
	for i := range ls {
		l := &ls[i]
		if len(l.Attributes) > 0 {
			return gpubackend.InvalidValue
		}
		var ok bool
		if offsets[i], ok = x.calls.Offsets(l.Function, l.Parameters); !ok {
			return gpubackend.InvalidValue
		}
	}
	return x.contexts.Failed(x.calls.LaunchDevices(ls, offsets, flags))
}
