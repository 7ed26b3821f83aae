// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/hostfunc"
)

// HostFunc has f called by a goroutine when the stream gets there; the stream waits for release.
func (d *Device) HostFunc(s gpubackend.Stream, token uint64, f func(token uint64)) (func(), gpubackend.Result) {
	v, r := d.hostCalls()
	if r != gpubackend.Success {
		return nil, r
	}
	d.Touch(s)
	release, r := v.Once(d.LaunchHostFunc(), s, token, f)
	return release, d.failed(r)
}

// HostFuncKept implements gpubackend.Capturing.
func (d *Device) HostFuncKept(s gpubackend.Stream, token uint64, f gpubackend.HostCall) gpubackend.Result {
	v, r := d.hostCalls()
	if r != gpubackend.Success {
		return r
	}
	d.Touch(s)
	return d.failed(v.Kept(d.LaunchHostFunc(), s, token, f))
}

// hostNode gives the function and its data for a host node.
func (d *Device) hostNode(token uint64, f gpubackend.HostCall) (function, data uint64, r gpubackend.Result) {
	v, r := d.hostCalls()
	if r == gpubackend.Success {
		function, data = v.Node(token, f)
	}
	return function, data, r
}

// hostCalls makes what carries calls of host functions, on first use.
func (d *Device) hostCalls() (*hostfunc.Calls, gpubackend.Result) {
	if d.LaunchHostFunc() == nil {
		return nil, gpubackend.NotSupported
	}
	if d.waits == nil {
		v, err := hostfunc.New()
		if err != nil {
			d.log.WithError(err).Error("host function")
			return nil, gpubackend.OutOfMemory
		}
		d.waits = v
	}
	return d.waits, gpubackend.Success
}
