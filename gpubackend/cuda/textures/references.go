// SPDX-License-Identifier: Apache-2.0

package textures

import "github.com/paracuda/paracuda/gpubackend"

// CUDA's documentation of cuGraphAddKernelNode: kernels in graphs must not use texture or surface
// references. So launches are no longer replayed once a program has asked for one.

// ModuleGetTexRef passes the call on, and ends the replaying of launches.
func (x *Textures) ModuleGetTexRef(
	m gpubackend.Module, name string,
) (gpubackend.TextureReference, gpubackend.Result) {
	t, r := x.calls.ModuleGetTexRef(m, name)
	if r == gpubackend.Success {
		x.referred()
	}
	return t, r
}

// ModuleGetSurfRef passes the call on, and ends the replaying of launches.
func (x *Textures) ModuleGetSurfRef(
	m gpubackend.Module, name string,
) (gpubackend.SurfaceReference, gpubackend.Result) {
	s, r := x.calls.ModuleGetSurfRef(m, name)
	if r == gpubackend.Success {
		x.referred()
	}
	return s, r
}
