// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// CUDA's documentation of cuGraphAddKernelNode: kernels in graphs must not use texture or surface references. So
// launches are no longer replayed once a program has asked for one.

// ModuleGetTexRef passes the call on, and ends the replaying of launches.
func (d *Device) ModuleGetTexRef(m gpubackend.Module, name string) (gpubackend.TextureReference, gpubackend.Result) {
	t, r := d.calls.ModuleGetTexRef(m, name)
	d.references = d.references || r == gpubackend.Success
	return t, r
}

// ModuleGetSurfRef passes the call on, and ends the replaying of launches.
func (d *Device) ModuleGetSurfRef(m gpubackend.Module, name string) (gpubackend.SurfaceReference, gpubackend.Result) {
	s, r := d.calls.ModuleGetSurfRef(m, name)
	d.references = d.references || r == gpubackend.Success
	return s, r
}
