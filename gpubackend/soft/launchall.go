// SPDX-License-Identifier: Apache-2.0

package soft

import "github.com/paracuda/paracuda/gpubackend"

// LaunchAll implements gpubackend.Driver.
func (d *Device) LaunchAll(ls []gpubackend.Launch) (queued int, result gpubackend.Result) {
	for i := range ls {
		if result := d.Launch(&ls[i]); result != gpubackend.Success {
			return i, result
		}
	}
	return len(ls), gpubackend.Success
}
