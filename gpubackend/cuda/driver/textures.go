// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
)

// NewTexture makes a texture object of three descriptions, of which the latter two may be empty.
func (d Textures) NewTexture(resource, texture, view []byte) (uint64, gpubackend.Result) {
	b, t, v := cmem.Copied(resource, 0), cmem.Optional(texture), cmem.Optional(view)
	defer b.Free()
	defer t.Free()
	defer v.Free()
	r := d.call(symTexObjectCreate, d.out(0), b.Address(), t.Address(), v.Address())
	return d.value(0), r
}

// NewSurface makes a surface object.
func (d Textures) NewSurface(resource []byte) (uint64, gpubackend.Result) {
	b := cmem.Copied(resource, 0)
	defer b.Free()
	r := d.call(symSurfObjectCreate, d.out(0), b.Address())
	return d.value(0), r
}

// TexRefSetMipmapLevelBias passes on a floating-point number.
func (d Textures) TexRefSetMipmapLevelBias(
	t gpubackend.TextureReference, bias uint64,
) gpubackend.Result {
	return d.callFloats(symTexRefSetMipmapLevelBias, uint64(t), bias)
}

// TexRefSetMipmapLevelClamp passes on two floating-point numbers.
func (d Textures) TexRefSetMipmapLevelClamp(
	t gpubackend.TextureReference, least, most uint64,
) gpubackend.Result {
	return d.callFloats(symTexRefSetMipmapLevelClamp, uint64(t), least, most)
}

// TexRefGetArray asks the driver.
func (d Textures) TexRefGetArray(
	t gpubackend.TextureReference,
) (gpubackend.Array, gpubackend.Result) {
	r := d.call(symTexRefGetArray, d.out(0), uint64(t))
	return gpubackend.Array(d.value(0)), r
}

// TexRefGetMipmappedArray asks the driver.
func (d Textures) TexRefGetMipmappedArray(
	t gpubackend.TextureReference,
) (gpubackend.MipmappedArray, gpubackend.Result) {
	r := d.call(symTexRefGetMipmappedArray, d.out(0), uint64(t))
	return gpubackend.MipmappedArray(d.value(0)), r
}

// SurfRefGetArray asks the driver.
func (d Textures) SurfRefGetArray(
	s gpubackend.SurfaceReference,
) (gpubackend.Array, gpubackend.Result) {
	r := d.call(symSurfRefGetArray, d.out(0), uint64(s))
	return gpubackend.Array(d.value(0)), r
}
