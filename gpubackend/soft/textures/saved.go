// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
)

// maxNumber bounds the numbers that textures get again. A device that makes a million a second
// stays below it for years.
const maxNumber = 1 << 48

// ArrayPlaces implements gpubackend.SavingTextures.
func (x *Textures) ArrayPlaces() (list []gpubackend.ArrayPlace) {
	for h, object := range x.options.Handles.All() {
		switch a := object.(type) {
		case *array:
			if a.levels == nil {
				list = append(list,
					gpubackend.ArrayPlace{Address: a.Image.Base, Array: gpubackend.Array(h)})
			}
		case *mipmappedArray:
			list = append(list,
				gpubackend.ArrayPlace{Address: a.base, Mipmapped: gpubackend.MipmappedArray(h)})
		}
	}
	return list
}

// NextTexture implements gpubackend.SavingTextures.
func (x *Textures) NextTexture(number uint64) error {
	if number == 0 || number >= maxNumber || x.objects.find(number) != nil {
		return fmt.Errorf("give a texture the number %#x: %w", number,
			gpubackend.InvalidValue.Err())
	}
	x.objects.next = number
	return nil
}

// number is the number of the texture or surface that is made now.
func (x *Textures) number() uint64 {
	n := x.objects.next
	if n == 0 {
		return x.options.Handles.Next()
	}
	x.objects.next = 0
	x.options.Handles.Reserve(n)
	return n
}

// Dangling says whether there is a texture or surface whose memory is gone.
func (x *Textures) Dangling() (dangling bool) {
	x.objects.byNumber.Range(func(_, found any) bool {
		o := found.(*object)
		switch {
		case o.Context == nil: // it was destroyed
		case o.texture != nil:
			t := o.texture
			dangling = !x.reaches(&t.Levels[0], t.Format.Bytes()*uint64(t.Channels))
		case o.surface != nil:
			dangling = !x.reaches(&o.surface.Texels, o.surface.Texel)
		}
		return !dangling
	})
	return dangling
}

// reaches says whether an image lies in memory.
func (x *Textures) reaches(i *sampler.Texels, texel uint64) bool {
	bytes := uint64(i.Depth-1)*i.Slice + uint64(i.Height-1)*i.Pitch + uint64(i.Width)*texel
	return x.options.Memory.Reaches(i.Base, bytes, false)
}
