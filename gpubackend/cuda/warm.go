// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// Warm implements gpubackend.Driver. Nearly all time goes into cuInit and the first GPU's primary context, which is
// retained ahead of use (gpu.ahead). An idle one takes several hundred MiB of device memory.
func (d *Device) Warm() gpubackend.Result {
	s, r := d.Open(nil)
	if r != gpubackend.Success {
		return r
	}
	h, r := d.calls.DevicePrimaryCtxRetain(d.gpus[0].native)
	if r != gpubackend.Success {
		return r
	}
	d.gpus[0].ahead, d.snapshot = h, s
	return gpubackend.Success
}

// Suits implements gpubackend.Driver: the driver read the variables when it was initialised.
func (d *Device) Suits(env []string) bool { return d.snapshot == nil || environmentHas(env) }

// retain takes a reference to a GPU's primary context: that of Warm, if there is one.
func (d *Device) retain(gpu int) (gpubackend.Context, gpubackend.Result) {
	g := &d.gpus[gpu]
	if h := g.ahead; h != 0 {
		g.ahead = 0
		return h, gpubackend.Success
	}
	return d.calls.DevicePrimaryCtxRetain(g.native)
}

// cool gives up the contexts of Warm, which a process that makes its own doesn't use.
func (d *Device) cool() {
	for i := range d.gpus {
		if g := &d.gpus[i]; g.ahead != 0 {
			g.ahead = 0
			d.calls.DevicePrimaryCtxRelease(g.native)
		}
	}
}
