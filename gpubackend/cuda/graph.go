// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// GraphInstantiate is cuGraphInstantiateWithParams.
func (d *Device) GraphInstantiate(g gpubackend.Graph, flags uint64, upload gpubackend.Stream) (
	exec gpubackend.GraphExec, node gpubackend.GraphNode, status uint64, r gpubackend.Result,
) {
	uploads := flags&instantiateUpload != 0
	if uploads {
		d.Touch(upload)
	}
	exec, r = d.instantiated(g, uploads, func() (e gpubackend.GraphExec, r gpubackend.Result) {
		e, node, status, r = d.GraphInstantiateWithParams(g, flags, upload)
		return e, r
	})
	return exec, node, status, r
}

const instantiateUpload = 2

// GraphConditionalHandle makes a handle, which kernels use under its own value.
func (d *Device) GraphConditionalHandle(g gpubackend.Graph, value, flags uint64) (uint64, gpubackend.Result) {
	return d.GraphConditionalHandleCreate(g, d.current, value, flags)
}

// DeviceGraphMemTrim gives back the memory that graphs don't use.
func (d *Device) DeviceGraphMemTrim(dev uint64) gpubackend.Result {
	i, ok := d.gpuOf(dev)
	if !ok {
		return gpubackend.InvalidDevice
	}
	r := d.calls.DeviceGraphMemTrim(d.gpus[i].native)
	if d.graphMemory.any {
		d.measureGraphs()
	}
	return r
}

// GraphMemory reads how much memory graphs have.
func (d *Device) GraphMemory(dev, attr uint64) (uint64, gpubackend.Result) {
	i, ok := d.gpuOf(dev)
	if !ok {
		return 0, gpubackend.InvalidDevice
	}
	return d.DeviceGetGraphMemAttribute(d.gpus[i].native, attr)
}

// GraphMemorySet resets a high-water mark.
func (d *Device) GraphMemorySet(dev, attr, value uint64) gpubackend.Result {
	i, ok := d.gpuOf(dev)
	if !ok {
		return gpubackend.InvalidDevice
	}
	return d.DeviceSetGraphMemAttribute(d.gpus[i].native, attr, value)
}
