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

// TexRefSetMipmapLevelBias passes a floating-point number on.
func (d *Device) TexRefSetMipmapLevelBias(t gpubackend.TextureReference, bias uint64) gpubackend.Result {
	return d.callFloats(symTexRefSetMipmapLevelBias, uint64(t), bias)
}

// TexRefSetMipmapLevelClamp passes floating-point numbers on.
func (d *Device) TexRefSetMipmapLevelClamp(t gpubackend.TextureReference, least, most uint64) gpubackend.Result {
	return d.callFloats(symTexRefSetMipmapLevelClamp, uint64(t), least, most)
}

// TexRefGetArray asks the driver.
func (d *Device) TexRefGetArray(t gpubackend.TextureReference) (gpubackend.Array, gpubackend.Result) {
	r := d.call(symTexRefGetArray, d.out(0), uint64(t))
	return gpubackend.Array(d.value(0)), r
}

// TexRefGetMipmappedArray asks the driver.
func (d *Device) TexRefGetMipmappedArray(t gpubackend.TextureReference) (gpubackend.MipmappedArray, gpubackend.Result) {
	r := d.call(symTexRefGetMipmappedArray, d.out(0), uint64(t))
	return gpubackend.MipmappedArray(d.value(0)), r
}

// SurfRefGetArray asks the driver.
func (d *Device) SurfRefGetArray(s gpubackend.SurfaceReference) (gpubackend.Array, gpubackend.Result) {
	r := d.call(symSurfRefGetArray, d.out(0), uint64(s))
	return gpubackend.Array(d.value(0)), r
}
