// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/environment"
)

// Warm implements gpubackend.Driver. Nearly all time goes into cuInit and a GPU's primary context,
// which is retained ahead of use. An idle one takes several hundred MiB of device memory.
func (d *Device) Warm(gpu int) gpubackend.Result {
	s, r := d.Open(nil)
	if r != gpubackend.Success {
		return r
	}
	if gpu < 0 || gpu >= len(s.Device) {
		return gpubackend.InvalidDevice
	}
	if r = d.WarmUp(gpu); r == gpubackend.Success {
		d.inventory = s
	}
	return r
}

// Suits implements gpubackend.Driver: the driver has read the variables at its initialisation.
func (d *Device) Suits(env []string) bool { return d.inventory == nil || environment.Has(env) }
