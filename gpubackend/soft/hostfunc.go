// SPDX-License-Identifier: Apache-2.0

package soft

import "github.com/paracuda/paracuda/gpubackend"

// HostFunc implements gpubackend.Driver. In a context that failed, f is not called and release does nothing.
func (d *Device) HostFunc(h gpubackend.Stream, token uint64, f func(uint64)) (func(), gpubackend.Result) {
	s, result := d.target(h)
	if result != gpubackend.Success {
		return nil, result
	}
	t := &task{class: host, run: func() { f(token) }}
	d.enqueue(s, t)
	return func() { d.scheduler.release(t) }, gpubackend.Success
}
