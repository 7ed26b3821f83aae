// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// blob is a structure of n bytes, whose words are below 12.
func (f *fuzzer) blob(n int) []byte {
	b := make([]byte, n)
	for i := 0; i < n && len(f.data) > 0; i += 4 {
		b[i] = f.byte() % 12
	}
	return b
}

func (f *fuzzer) array() gpubackend.Array { return gpubackend.Array(f.pick(f.arrays)) }

func (f *fuzzer) reference() gpubackend.TextureReference {
	return gpubackend.TextureReference(f.pick(f.references))
}

// textureStep makes one or two calls about arrays, textures, surfaces or references.
func (f *fuzzer) textureStep() {
	d := f.d
	switch f.byte() % 16 {
	case 0:
		a, r := d.Array3DCreate(f.blob(40))
		keep(&f.arrays, a, r)
	case 1:
		d.ArrayDestroy(f.array())
	case 2:
		m, r := d.MipmappedArrayCreate(f.blob(40), uint64(f.byte()))
		keep(&f.arrays, m, r)
		a, r := d.MipmappedArrayGetLevel(m, uint64(f.byte()%4))
		keep(&f.arrays, a, r)
	case 3:
		d.MipmappedArrayDestroy(gpubackend.MipmappedArray(f.pick(f.arrays)))
	case 4:
		d.CopyArray(arrayCopy(f.array(), f.size(), 0, 0, f.pick(f.memory), f.byte()&1 == 0,
			f.size(), 1+f.size()%3, 1), f.stream())
	case 5:
		resource := f.blob(cudaabi.ResourceDescSize)
		cudaabi.ResourceDesc(resource).SetArray(f.pick(append(f.arrays, f.memory...)))
		o, r := d.TexObjectCreate(resource, f.blob(cudaabi.TextureDescSize), nil)
		keep(&f.objects, o, r)
		o, r = d.SurfObjectCreate(resource)
		keep(&f.objects, o, r)
	case 6:
		d.TexObjectDestroy(f.pick(f.objects))
	case 7:
		d.SurfObjectDestroy(f.pick(f.objects))
	case 8:
		m, _, _, r := d.ModuleLoadData([]byte(referencePTX), nil, nil, nil)
		keep(&f.modules, m, r)
		t, r := d.ModuleGetTexRef(m, "line")
		keep(&f.references, t, r)
		k, r := d.ModuleGetFunction(m, "first")
		keep(&f.functions, k, r)
	case 9:
		d.TexRefSetArray(f.reference(), f.array(), uint64(f.byte()&1))
	case 10:
		d.TexRefSetMipmappedArray(f.reference(), gpubackend.MipmappedArray(f.pick(f.arrays)), 1)
	case 11:
		d.TexRefSetAddress(f.reference(), f.pick(f.memory), f.size())
	case 12:
		d.TexRefSetAddress2D(f.reference(), f.blob(24), f.pick(f.memory), 32*uint64(f.byte()))
	case 13:
		d.TexRefSetFormat(f.reference(), uint64(f.byte()), uint64(f.byte()%6))
	case 14:
		d.TexRefGetArray(f.reference())
		d.TexRefGetMipmappedArray(f.reference())
		d.TexRefSetFlags(f.reference(), uint64(f.byte()))
	case 15:
		r, result := d.TexRefCreate()
		keep(&f.references, r, result)
		d.TexRefDestroy(f.reference())
	}
}
